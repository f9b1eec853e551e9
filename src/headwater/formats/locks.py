"""One lock per table in this process: Spark's and the native libraries' commits never race each other.

On a local file system the two engines make a commit in different ways, and in a race both can believe that they won.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.formats.base import Address

_guard = threading.Lock()
_locks: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


@contextmanager
def writing(address: Address) -> Iterator[None]:
    """Only this thread writes the table; a thread that has it already goes on."""
    name = address.table or (address.path or "").removeprefix("file:").rstrip("/").replace("///", "/")
    with _guard:
        lock = _locks[name]
    with lock:
        yield
