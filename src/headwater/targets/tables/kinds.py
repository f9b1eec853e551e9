"""The table formats as kinds of targets."""

from __future__ import annotations

from headwater.targets.base import TargetKind

TABLE_KINDS: tuple[TargetKind, ...] = ()
