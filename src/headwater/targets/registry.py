"""The kinds of targets that exports go to: one line each."""

from __future__ import annotations

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.targets.base import TargetKind
from headwater.targets.files.kinds import FILE_KINDS
from headwater.targets.tables.kinds import TABLE_KINDS

TARGETS: Registry[TargetKind] = Registry("export format", "headwater.targets", Code.UNKNOWN_FORMAT)
for _kind in (*FILE_KINDS, *TABLE_KINDS):
    TARGETS.add(_kind.name, _kind)
