"""What definitions ask of their formats, against what the formats say they can."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import Code, Problem, did_you_mean
from headwater.core.model import Kind
from headwater.core.spec import ParquetOptions, RelationSpec, Table, Topic, View
from headwater.formats.base import Capability, Format
from headwater.formats.interop.choices import possible_targets, refusal
from headwater.formats.registry import FORMATS
from headwater.project.definition import ProjectDefinition
from headwater.project.graph import Graph, Name
from headwater.sources.table.config import TableSource
from headwater.targets.checks import mistakes

Need = tuple[Capability, str]
"""What is asked for, and the key that asks for it."""


def capability_problems(project: ProjectDefinition, graph: Graph) -> Iterator[Problem]:
    """Unknown formats, and what is asked of known ones in vain, with the formats that have it."""
    if project.settings.format not in FORMATS:
        yield _unknown(project, project.settings.format, "format")
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            path = f"{kind.plural}.{name}"
            if relation.format is not None and relation.format not in FORMATS:
                yield _unknown(project, relation.format, f"{path}.format")
            elif project.format_of(relation) in FORMATS:
                format = FORMATS.get(project.format_of(relation))
                yield from _lacking(project, format, path, _needs(relation), relation.parquet)
                yield from _not_interoperable(project, format, path, relation)
    for name, export in project.exports.items():
        for one in mistakes(export):
            yield Problem(one.code, one.message, project.where(f"exports.{name}.{one.key}"), one.hint)
    for name, source in project.sources.items():
        if isinstance(source, TableSource):
            yield from _unreadable(project, source, f"sources.{name}")
    yield from _changes_of_inputs(project, graph)


def _unreadable(project: ProjectDefinition, source: TableSource, path: str) -> Iterator[Problem]:
    """A source's table in a format that is not there, or by a name where the format has none."""
    if source.format not in FORMATS:
        yield _unknown(project, source.format, f"{path}.format")
        return
    format = FORMATS.get(source.format)
    if source.table is not None and format.address(project.lake_context, Kind.TABLE.plural, "any").table is None:
        message = f"{format.title} tables are found by path, not by name"
        yield Problem(Code.INVALID_VALUE, message, project.where(f"{path}.table"), "give `path`")


def _needs(definition: RelationSpec) -> Iterator[Need]:
    """Everything a definition asks of its format."""
    if isinstance(definition, Topic):
        yield Capability.APPEND, ""
        if definition.delivery == "exactly_once":
            yield Capability.COMMIT_TAGS, "delivery"
    if isinstance(definition, Table) and (definition.apply is not None or definition.keys):
        yield Capability.UPSERT, "apply" if definition.apply is not None else "keys"
    if isinstance(definition, View):
        incremental = definition.refresh.policy in ("incremental", "incremental_strict")
        yield (Capability.UPSERT, "refresh.policy") if incremental else (Capability.REPLACE, "")
    if definition.partition_by:
        yield Capability.PARTITION, "partition_by"
    if any("(" in part for part in definition.partition_by):
        yield Capability.PARTITION_TRANSFORMS, "partition_by"
    if definition.z_order_by:
        yield Capability.CLUSTER, "z_order_by"
    elif definition.clustering.by:
        yield Capability.CLUSTER, "cluster.by"
    if definition.target_file_size is not None:
        yield Capability.TARGET_FILE_SIZE, "target_file_size"
    if definition.compact is not None:
        yield Capability.COMPACT, "compact"
    if "versions" in definition.retention.model_fields_set:
        yield Capability.EXPIRE, "retain"
    if definition.retention.rows is not None:
        yield Capability.REPLACE, "retain.rows"
    yield from _parquet_needs(definition.parquet)


def _not_interoperable(
    project: ProjectDefinition, format: Format, path: str, relation: RelationSpec
) -> Iterator[Problem]:
    """Formats that a relation's files can't be read as."""
    for name in relation.interop:
        if name not in FORMATS:
            yield _unknown(project, name, f"{path}.interop")
            continue
        why = refusal(format, FORMATS.get(name))
        if why is not None:
            others = possible_targets(format)
            hint = f"{format.title} can be read as {', '.join(others)}" if others else None
            message = f"it can't be read as {FORMATS.get(name).title}: {why}"
            yield Problem(Code.UNSUPPORTED, message, project.where(f"{path}.interop"), hint)


def _parquet_needs(parquet: ParquetOptions) -> Iterator[Need]:
    if parquet.row_group_size is not None:
        yield Capability.ROW_GROUP_SIZE, "parquet.row_group_size"
    if parquet.dictionary is not None:
        yield Capability.DICTIONARY, "parquet.dictionary"
    if parquet.bloom_filter:
        yield Capability.BLOOM_FILTER, "parquet.bloom_filter"
    if parquet.statistics is False:
        yield Capability.STATISTICS, "parquet.statistics"


def _lacking(
    project: ProjectDefinition, format: Format, path: str, needs: Iterator[Need], parquet: ParquetOptions
) -> Iterator[Problem]:
    for capability, key in needs:
        if not format.can(capability):
            yield _refused(project, format, capability, f"{path}.{key}" if key else path)
    codec = parquet.compression
    if codec is not None and codec not in format.codecs:
        message = f"{format.title} can't write Parquet with '{codec}' compression"
        having = [other.title for other in FORMATS if codec in other.codecs]
        hint = f"it has {', '.join(sorted(format.codecs))}" + (f"; {_these(having)} {codec}" if having else "")
        yield Problem(Code.UNSUPPORTED, message, project.where(f"{path}.parquet.compression"), hint)


def _changes_of_inputs(project: ProjectDefinition, graph: Graph) -> Iterator[Problem]:
    """A view that must be kept incrementally reads the changes of its inputs."""
    for name, view in project.views.items():
        if view.refresh.policy != "incremental_strict":
            continue
        for each in graph.inputs.get(Name(Kind.VIEW, name), ()):
            relation = project.relations(each.of.kind).get(each.of.name)
            format_name = None if relation is None else project.format_of(relation)
            if format_name is None or format_name not in FORMATS:
                continue
            format = FORMATS.get(format_name)
            if not format.can(Capability.CHANGES):
                yield _refused(project, format, Capability.CHANGES, f"views.{name}.refresh.policy", str(each.of))


def _refused(
    project: ProjectDefinition, format: Format, capability: Capability, path: str, of: str | None = None
) -> Problem:
    having = [other.title for other in FORMATS if other.can(capability)]
    message = format.refusal(capability) if of is None else f"{of}: {format.refusal(capability)}"
    hint = f"{_these(having)} this" if having else None
    return Problem(Code.UNSUPPORTED, message, project.where(path), hint)


def _these(titles: list[str]) -> str:
    return f"{titles[0]} has" if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]} have"


def _unknown(project: ProjectDefinition, name: str, path: str) -> Problem:
    hint = did_you_mean(name, FORMATS.names())
    return Problem(Code.UNKNOWN_FORMAT, f"unknown format '{name}'", project.where(path), hint)
