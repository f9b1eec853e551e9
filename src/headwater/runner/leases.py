"""A lease per flow: who may write for it. Taken before the first step, renewed while it runs, asked before a commit."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from headwater.core.errors import Code, TerminalError, TransientError
from headwater.core.logs import get_logger
from headwater.core.state import LeaseRecord, State
from headwater.runner.holders import Holder

_OF_COMMAND = "command-"
"""How the token of a lease begins that a command has for as long as it works."""

log = get_logger(__name__)


@dataclass(frozen=True)
class Held:
    """What a lease says of its holder now."""

    holder: Holder
    live: bool
    """It may write: heard of lately, and its process is there as far as this machine can tell."""
    heard_at: datetime


def held(record: LeaseRecord, now: float) -> Held:
    """Whether a lease is in force."""
    holder = Holder.from_record(record.holder)
    there = not holder.is_on_this_machine or holder.is_alive
    heard_at = datetime.fromtimestamp(record.renewed_at, timezone.utc)
    return Held(holder, there and now < record.expires_at, heard_at)


def require_free(state: State, flow: str) -> None:
    """Refuse (FLOW_HELD) where another process may write for the flow: asked before work that would be for nothing."""
    record = state.lease(flow)
    lease = None if record is None else held(record, state.now())
    if lease is not None and lease.live and not lease.holder.is_me:
        raise _refusal(flow, lease.holder)


def is_lent(state: State, flow: str) -> bool:
    """Whether a flow that is held comes back soon: a command works on it, or its lease has just ended."""
    record = state.lease(flow)
    return record is None or record.token.startswith(_OF_COMMAND)


class Lease:
    """One flow's lease, ours until it is released or lost."""

    def __init__(self, state: State, flow: str, token: str, duration: timedelta) -> None:
        self.flow = flow
        self._state = state
        self._token = token
        self._duration = duration.total_seconds()
        self._renewed = time.monotonic()
        self._lock = threading.Lock()
        self.lost = False

    @staticmethod
    def take(state: State, flow: str, holder: Holder, duration: timedelta, *, of_command: bool = False) -> Lease:
        """Take it where it is free, or its holder is gone or has not been heard of for too long; else FLOW_HELD.

        A holder on this machine is ended first, with its JVM: it may only be paused. `of_command`: it is given back as
        soon as the command is over, and a runner that starts meanwhile waits for it.
        """
        token = (_OF_COMMAND if of_command else "") + uuid.uuid4().hex
        now = state.now()
        mine = LeaseRecord(flow, token, holder.record(), now, now + duration.total_seconds())
        lease = state.lease(flow)
        if lease is not None:
            before = held(lease, now)
            if before.live:
                raise _refusal(flow, before.holder)
            if before.holder.is_on_this_machine and not before.holder.is_me:
                before.holder.end()
            log.warning("flow taken over", flow=flow, holder=str(before.holder), heard_at=before.heard_at.isoformat())
        if not state.take_lease(mine, None if lease is None else lease.token):
            winner = state.lease(flow)
            if winner is None:
                raise TransientError(Code.FLOW_HELD, f"{flow} was let go of this moment", hint="try again")
            raise _refusal(flow, Holder.from_record(winner.holder))
        return Lease(state, flow, token, duration)

    def renew(self, holder: Holder) -> bool:
        """Say that we are here; False once somebody else has the flow."""
        with self._lock:
            if not self.lost:
                now = self._state.now()
                record = LeaseRecord(self.flow, self._token, holder.record(), now, now + self._duration)
                begun = time.monotonic()
                if self._state.take_lease(record, self._token):
                    self._renewed = begun
                else:
                    self.lost = True
            return not self.lost

    def check(self) -> None:
        """Raise unless the flow is ours: asked right before a commit."""
        record = None if self.lost else self._state.lease(self.flow)
        if record is None or record.token != self._token:
            self.lost = True
            taken = "" if record is None else f" by {Holder.from_record(record.holder)}"
            raise TerminalError(
                Code.LEASE_LOST,
                f"{self.flow} has been taken over{taken}",
                hint="one runner keeps a flow; this one was not heard of for too long",
            )
        if time.monotonic() - self._renewed > self._duration / 2:
            # Late, as when the state database can't be written: without a renewal that goes through, nothing is
            # committed, since the commit itself takes time and somebody else could have the flow by then.
            self.renew(Holder.from_record(record.holder))
            self.check()

    def release(self) -> None:
        with self._lock:
            self.lost = True  # whoever is about to renew it finds it gone
        self._state.drop_lease(self.flow, self._token)


def _refusal(flow: str, holder: Holder) -> TerminalError:
    return TerminalError(
        Code.FLOW_HELD,
        f"{flow} is run by {holder}",
        hint="stop that runner first, or leave the flow to it",
    )
