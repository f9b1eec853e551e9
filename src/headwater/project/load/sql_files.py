"""`tables/*.sql` and `views/*.sql`: a definition named after its file, its options in a leading comment."""

from __future__ import annotations

from pathlib import Path

from headwater.core.errors import Code, Problem, Where
from headwater.project.load.code import shown
from headwater.project.load.files import read_text
from headwater.project.load.tree import TreeNode
from headwater.project.load.yaml import parse_yaml

FOLDERS = ("tables", "views")


def sql_files(root: Path, problems: list[Problem]) -> list[TreeNode]:
    """One tree for each SQL file: `{views: {name: {sql: …}}}`."""
    found = []
    for folder in FOLDERS:
        for file in sorted((root / folder).glob("*.sql")):
            text = read_text(file, shown(file, root), problems)
            definition = None if text is None else _definition(text, shown(file, root), problems)
            if definition is not None:
                section = definition.with_value({file.stem: definition})
                found.append(definition.with_value({folder: section}))
    return found


def _definition(text: str, file: str, problems: list[Problem]) -> TreeNode | None:
    options, rest = _front_matter(text)
    entries: dict[str, TreeNode] = {}
    if options is not None:
        found = parse_yaml(options, file, problems)
        if found is None:
            return None
        # A leading comment that is only words is a comment.
        entries = dict(found.entries)
    if "sql" in entries:
        where = entries["sql"].where()
        problems.append(Problem(Code.DUPLICATE_NAME, "the SQL goes below the options", where, "remove `sql`"))
    body = rest.strip().rstrip(";").rstrip()
    if not body:
        problems.append(Problem(Code.INVALID_SQL, "there is no SQL in the file", Where(file, 1)))
        return None
    line = text[: len(text) - len(rest.lstrip())].count("\n") + 1
    entries["sql"] = TreeNode(body, file, line, text_line=line)
    return TreeNode(entries, file, 1)


def _front_matter(text: str) -> tuple[str | None, str]:
    """The leading comment, on its own lines and columns, and what follows it."""
    start = len(text) - len(text.lstrip())
    end = text.find("*/", start)
    if not text.startswith("/*", start) or end < 0:
        return None, text
    before = "".join(c if c == "\n" else " " for c in text[:start])
    return before + "  " + text[start + 2 : end], text[end + 2 :]
