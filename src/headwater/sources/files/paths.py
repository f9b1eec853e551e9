"""Names of files, whatever characters are in them."""

from __future__ import annotations


def is_unicode(path: str) -> bool:
    """Whether a name is text at all: on most file systems it may be any bytes."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(path: str) -> str:
    """A name as it can be printed and kept: what is no text in it stands as `\\xff`."""
    return path if is_unicode(path) else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_plain(path: str) -> bool:
    """Whether Spark finds a file under this path as it finds others: Hadoop takes a colon for the end of a scheme."""
    return ":" not in path
