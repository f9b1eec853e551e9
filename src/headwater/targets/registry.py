"""The kinds of targets that exports go to: one line each."""

from __future__ import annotations

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.targets.base import TargetKind
from headwater.targets.files.kinds import FILE_KINDS
from headwater.targets.jdbc.kinds import JDBC_KIND
from headwater.targets.kafka.kinds import KAFKA_KIND
from headwater.targets.postgres.kinds import POSTGRES_KIND
from headwater.targets.tables.kinds import TABLE_KINDS

TARGETS: Registry[TargetKind] = Registry("export format", "headwater.targets", Code.UNKNOWN_FORMAT)
for _kind in (*FILE_KINDS, *TABLE_KINDS, POSTGRES_KIND, KAFKA_KIND, JDBC_KIND):
    TARGETS.add(_kind.name, _kind)
