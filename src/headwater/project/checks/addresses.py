"""Addresses of databases, which hold passwords."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import Code, Problem
from headwater.core.secret import BARE_SIGN, ENCODE, Secret, has_bare_sign
from headwater.project.definition import ProjectDefinition


def address_problems(project: ProjectDefinition) -> Iterator[Problem]:
    """Passwords whose end would be taken for a host, and shown as one."""
    addresses: dict[str, object] = {"state": project.settings.state}
    addresses |= {f"sources.{name}.dsn": getattr(source, "dsn", None) for name, source in project.sources.items()}
    for path, address in addresses.items():
        if isinstance(address, Secret) and has_bare_sign(address.reveal()):
            key = path.rpartition(".")[2]
            yield Problem(Code.INVALID_VALUE, f"`{key}` {BARE_SIGN}", project.where(path), ENCODE)
