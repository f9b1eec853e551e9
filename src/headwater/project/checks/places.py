"""Where relations and files lie: nothing lies in, around or in the place of something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from headwater.core.errors import Code, Problem, Where
from headwater.core.model import Kind
from headwater.core.spec import RelationSpec
from headwater.core.state.paths import below
from headwater.formats.registry import FORMATS
from headwater.project.definition import ProjectDefinition
from headwater.project.load.files import HOME
from headwater.sources.files.cleanup import ARCHIVE_HINT, is_ingested
from headwater.sources.files.config import FilesSource
from headwater.sources.files.folder import UNFINISHED, split, translated

SYSTEM = "_headwater"
"""The folder of the warehouse with Headwater's own records."""


@dataclass(frozen=True)
class Place:
    """Where one relation is kept."""

    of: str
    """`topics.orders`"""
    folder: str | None
    table: str | None
    written: str | None
    """As the project says it; None: it is the default."""
    where: Where


def place_problems(project: ProjectDefinition) -> Iterator[Problem]:
    """Two relations in one place would overwrite each other; a source that reads the lake would feed on itself."""
    places = list(_places(project))
    yield from _shared(places)
    yield from _nested(places)
    for place in places:
        if place.written is not None and place.folder is not None:
            yield from _not_a_place(project, place, place.written, place.folder)
    for name, source in project.sources.items():
        if isinstance(source, FilesSource):
            yield from _source_problems(project, name, source, places)


def _places(project: ProjectDefinition) -> Iterator[Place]:
    """What a project gives a place comes first: where two collide, that is what can be changed."""
    found = []
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            found.append(_place(project, kind, name, relation))
    yield from sorted(found, key=lambda place: place.written is not None)


def _place(project: ProjectDefinition, kind: Kind, name: str, relation: RelationSpec) -> Place:
    of = f"{kind.plural}.{name}"
    source = project.sources.get(getattr(relation, "from_", None) or "") if kind is Kind.TOPIC else None
    captured = source is not None and source.captures_tables
    if relation.path is not None:
        return Place(of, project.location(relation.path), None, relation.path, project.where(f"{of}.path"))
    if relation.table is not None and not captured:
        return Place(of, None, relation.table, relation.table, project.where(f"{of}.table"))
    format = project.format_of(relation)
    if format not in FORMATS:
        return Place(of, None, None, None, project.where(of))
    address = FORMATS.get(format).address(project.lake_context, kind.plural, name)
    folder = address.path
    if folder is None and FORMATS.get(format).in_catalogs:  # where a catalog of the lake puts it
        folder = f"{project.warehouse.rstrip('/')}/{kind.plural}/{name}"
    return Place(of, folder, address.table, None, project.where(of))


def _shared(places: list[Place]) -> Iterator[Problem]:
    """Places that are the same, by folder or by name in a catalog."""
    taken: dict[tuple[str, str], Place] = {}
    for place in places:
        for key, value in (("path", place.folder), ("table", place.table)):
            if value is None:
                continue
            other = taken.setdefault((key, value), place)
            if other is not place and place.written is not None:
                message = f"'{place.written}' is where {other.of} is kept: each would overwrite the other"
                hint = f"give one of them another `{key}`; the other is at {other.where}"
                yield Problem(Code.DUPLICATE_NAME, message, place.where, hint)
                break


def _nested(places: list[Place]) -> Iterator[Problem]:
    """Files in another table's folder are files that nothing of that table names: they would be cleaned away."""
    folders = {place.folder: place for place in places if place.folder is not None}
    for place in places:
        if place.folder is None:
            continue
        for above in _above(place.folder):
            outer = folders.get(above)
            if outer is None:
                continue
            given, other = (place, outer) if place.written is not None else (outer, place)
            relation = "lies in the folder of" if given is place else "holds the folder of"
            message = f"'{given.written}' {relation} {other.of}: cleaning the one would delete files of the other"
            hint = f"give it a folder of its own, outside of the other, which is at {other.where}"
            yield Problem(Code.DUPLICATE_NAME, message, given.where, hint)
            break


def _not_a_place(project: ProjectDefinition, place: Place, written: str, folder: str) -> Iterator[Problem]:
    """A folder that is the lake's or the project's own, or that a source reads."""
    warehouse, root = project.warehouse, str(project.root.resolve())
    why = None
    if _holds(folder, root):
        why = "holds the project itself"
    elif _holds(folder, warehouse):
        why = "holds the whole lake"
    elif _holds(f"{warehouse.rstrip('/')}/{SYSTEM}", folder) or _holds(f"{root}/{HOME}", folder):
        why = f"lies where Headwater keeps its own records, in {SYSTEM} or {HOME}"
    if why is not None:
        message = f"'{written}' {why}: a table needs a folder in which nothing else is"
        yield Problem(Code.INVALID_VALUE, message, place.where, "leave `path` out, or give it a folder of its own")


def _source_problems(
    project: ProjectDefinition, name: str, source: FilesSource, places: list[Place]
) -> Iterator[Problem]:
    location = project.location(source.path)
    root, glob = split(source.path, location)
    where = project.where(f"sources.{name}.path")
    deep = source.recursive or glob is not None
    clears = "" if source.after == "keep" else f", and `after: {source.after}` would take them away"
    found: tuple[str, str] | None = None
    if _holds(project.warehouse, root) or (deep and _reads(root, glob, project.warehouse)):
        found = "the lake", f"files of tables would be ingested{clears}"
    elif _takes_project(project, source, root, glob):
        found = "the project", f"{project.file.name} would be ingested{clears}"
    if found is not None:
        message = f"'{source.path}' reads {found[0]} itself: {found[1]}"
        hint = "let `path` be a folder that only its files land in, next to the lake; a table is read by `type: table`"
        yield Problem(Code.INVALID_VALUE, message, where, hint)
    else:
        for place in places:
            if place.written is None or place.folder is None:
                continue
            if _holds(place.folder, root) or (deep and _reads(root, glob, place.folder)):
                message = f"'{place.written}' is in the way of sources.{name}: it reads '{source.path}'{clears}"
                hint = f"give it a folder of its own, outside of the other, which is at {where}"
                yield Problem(Code.INVALID_VALUE, message, place.where, hint)
    if source.archive_to is not None:
        archive = project.location(source.archive_to)
        where = project.where(f"sources.{name}.archive_to")
        if is_ingested(archive, root):
            message = f"`archive_to` {source.archive_to} lies in the folder that is ingested"
            yield Problem(Code.INVALID_VALUE, message, where, ARCHIVE_HINT)
        elif _holds(project.warehouse, archive):
            message = f"`archive_to` {source.archive_to} lies in the lake, where only tables are kept"
            yield Problem(Code.INVALID_VALUE, message, where, ARCHIVE_HINT)


def _takes_project(project: ProjectDefinition, source: FilesSource, root: str, glob: str | None) -> bool:
    """Whether the project file is one of the files that the source takes."""
    inside = below(str(project.root.resolve() / project.file.name), root)
    if inside is None or UNFINISHED.search(inside) or ("/" in inside and not source.recursive and glob is None):
        return False
    if glob is not None and re.fullmatch(translated(glob), inside) is None:
        return False
    return source.pattern is None or PurePosixPath(inside).match(source.pattern)


def _reads(root: str, glob: str | None, folder: str) -> bool:
    """Whether a look into `root` comes to what lies in `folder`; names that begin with `_` or `.` are passed over."""
    inside = below(folder, root)
    if inside is None or UNFINISHED.search(inside):
        return False
    return glob is None or _goes_through(glob.split("/"), inside.split("/"))


def _goes_through(glob: list[str], folders: list[str]) -> bool:
    """Whether a file below the folders can fit the glob."""
    for part, folder in zip(glob, folders, strict=False):
        if "**" in part:
            return True
        if re.fullmatch(translated(part), folder) is None:
            return False
    return len(glob) > len(folders)


def _holds(folder: str, path: str) -> bool:
    return path.rstrip("/") == folder.rstrip("/") or below(path, folder) is not None


def _above(folder: str) -> Iterator[str]:
    """The folders above one, the nearest first."""
    above = folder.rstrip("/").rpartition("/")[0]
    while above and not above.endswith("/"):
        yield above
        above = above.rpartition("/")[0]
