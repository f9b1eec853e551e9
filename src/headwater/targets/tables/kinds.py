"""The table formats as kinds of targets: one line each."""

from __future__ import annotations

from functools import partial

from headwater.formats.base import Capability, Format
from headwater.formats.delta.format import DELTA
from headwater.formats.hudi.format import HUDI
from headwater.formats.iceberg.format import ICEBERG
from headwater.formats.paimon.format import PAIMON
from headwater.targets.base import Ability, Destination, ExportTarget, TargetKind
from headwater.targets.tables.location import locate


def _open(format: Format, destination: Destination) -> ExportTarget:
    from headwater.targets.tables.target import TableTarget  # with Spark's side of formats

    kind = next(one for one in TABLE_KINDS if one.name == format.name)
    return TableTarget(kind, destination, format)


def _kind(format: Format, *, single_pass: bool = True) -> TargetKind:
    abilities: set[Ability] = {"stream", "updates", "nested", "binary", "partitions", "file size"}
    asked: dict[Ability, Capability] = {
        "partition expressions": Capability.PARTITION_TRANSFORMS,
        "z-order": Capability.CLUSTER,
    }
    notes: dict[Ability, str] = {}
    for ability, capability in asked.items():
        if format.can(capability):
            abilities.add(ability)
        elif capability in format.notes:
            notes[ability] = format.notes[capability]
    return TargetKind(
        format.name,
        format.title,
        frozenset(abilities),
        format.codecs,
        partial(_open, format),
        needs=format.needs,
        locate=partial(locate, format),
        in_catalogs=format.in_catalogs,
        single_pass=single_pass,
        notes=notes,
    )


TABLE_KINDS = (
    _kind(DELTA),
    _kind(ICEBERG),
    _kind(HUDI, single_pass=False),  # it takes samples of what it sorts
    _kind(PAIMON),
)
