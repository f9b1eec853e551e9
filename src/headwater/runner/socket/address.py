"""Where a runner's socket is, and which commands it is for. Light: a command that is answered loads little more."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.project.load.files import HOME

if TYPE_CHECKING:
    from headwater.project.definition import ProjectDefinition

_VARIABLE = re.compile(r"\$\{(\w+)")


@dataclass(frozen=True)
class Hello:
    """Which runner this is: a command for another project, target or environment, or of another version, runs alone."""

    version: str
    file: str
    target: str | None
    variables: Sequence[str]
    """Names of environment variables that the project file uses."""
    digest: str
    """Of their values."""
    commands: Sequence[str]
    """What it answers: `query`, `topic describe`."""

    @staticmethod
    def of(project: ProjectDefinition, commands: Iterable[str]) -> Hello:
        names = sorted({name for _, text in project.written.values() for name in _VARIABLE.findall(text)})
        file, digest = str(project.file), environment_digest(names)
        return Hello(version("headwater"), file, project.target, names, digest, sorted(commands))

    @staticmethod
    def from_json(text: bytes) -> Hello:
        return Hello(**json.loads(text))  # TypeError and ValueError: not a runner that we know how to talk to

    def record(self) -> Mapping[str, Any]:
        return asdict(self)

    def fits(self, file: Path, target: str | None, arguments: Sequence[str]) -> bool:
        words = (" ".join(arguments[:1]), " ".join(arguments[:2]))
        return (
            any(word in self.commands for word in words)
            and (self.version, self.file, self.target) == (version("headwater"), str(file), target)
            and self.digest == environment_digest(self.variables)
        )


def environment_digest(names: Iterable[str]) -> str:
    """Tells two environments apart without telling what is in them."""
    values = json.dumps([[name, os.environ.get(name)] for name in sorted(names)])
    return hashlib.sha256(values.encode()).hexdigest()


def folder_of(file: Path) -> Path:
    """The folder of a project's socket."""
    return file.parent / HOME / "run"


def socket_of(file: Path) -> Path | None:
    """Where a project's runner listens, if it seems to and the place is this user's own."""
    try:
        place = Path((folder_of(file) / "socket").read_text(encoding="utf-8").strip())
        mine = os.stat(place).st_uid == os.stat(place.parent).st_uid == os.getuid()
    except OSError:
        return None
    return place if mine else None
