"""Small files of the lake, wherever it lies: read, written whole or not at all, listed, moved, deleted.

One class over pyarrow's file systems for a root URI: a local path, `file://`, `s3://` (`s3a://`), `gs://`,
`abfss://`, `hdfs://`. Paths are relative to the root, with `/` between their parts.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headwater.core.disk_errors import disk_error
from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError
from headwater.core.file_systems import SCHEME, azure_path, open_file_system, split_uri

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs  # a fifth of a second of loading, which a look at a local file does without

_PIECE = 4 * 1024 * 1024
"""Bytes of a large file that are held at a time."""
_PATTERN = re.compile(r"([{}\[\]*?\\])")
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR})


@dataclass(frozen=True)
class FileEntry:
    """A file or folder under the root."""

    path: str
    bytes: int
    modified: datetime
    is_folder: bool = False

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


class Files:
    """The files under one root."""

    def __init__(self, root: str, storage: Mapping[str, Any] | None = None) -> None:
        self.root = root.rstrip("/") or "/"
        self.storage = storage or {}
        local = _local(root)
        self.is_local = local is not None
        if local is None:
            self._fs, local = open_file_system(root, self.storage)
        self._base = local.rstrip("/") or "/"

    @cached_property
    def _fs(self) -> fs.FileSystem:
        from pyarrow import fs

        return fs.LocalFileSystem()

    def inside(self, path: str = "") -> str:
        """The path as the file system itself names it; it may be a full path or URI in the same storage too."""
        scheme, rest = split_uri(path)
        if scheme in ("abfs", "abfss"):
            rest = azure_path(path)
        elif scheme == "file":
            rest = "/" + rest.lstrip("/")
        elif not scheme:
            rest = posixpath.join(self._base, rest) if rest else self._base
        return rest

    def join(self, *parts: str) -> str:
        """The full URI (or local path) of something under the root."""
        return posixpath.join(self.root, *parts)

    def spark_uri(self, path: str = "") -> str:
        """The same, as Spark's file systems name it."""
        return to_spark_uri(self.join(path) if path else self.root)

    def spark_pattern(self, path: str = "") -> str:
        """The same for Spark's readers, which take brackets, braces and stars for patterns."""
        return as_pattern(self.spark_uri(path))

    # --- reading

    def read_bytes(self, path: str) -> bytes:
        content = self.find(path)
        if content is None:
            raise TerminalError(Code.STORAGE_FAILED, f"there is no file {self.join(path)}")
        return content

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8")

    def find(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        with self._doing("read", path):
            try:
                if self.is_local:
                    with open(self.inside(path), "rb") as local:
                        return local.read()
                with self._fs.open_input_file(self.inside(path)) as file:
                    content: bytes = file.read()
                    return content
            except (FileNotFoundError, NotADirectoryError):
                return None

    @contextmanager
    def reading(self, path: str) -> Iterator[NativeFile]:
        """An open file for those who read parts of it."""
        with self._doing("read", path):
            with self._fs.open_input_file(self.inside(path)) as file:
                yield file

    def chunks(self, path: str) -> Iterator[bytes] | None:
        """The content piece by piece; None if there is no such file. Once it is open it is read to its end."""
        with self._doing("read", path):
            try:
                file = self._fs.open_input_stream(self.inside(path), compression=None)
            except FileNotFoundError:
                return None
        return self._chunks(path, file)

    def _chunks(self, path: str, file: NativeFile) -> Iterator[bytes]:
        with file:
            while True:
                with self._doing("read", path):
                    piece: bytes = file.read(_PIECE)
                if not piece:
                    return
                yield piece

    def exists(self, path: str = "") -> bool:
        with self._doing("look up", path):
            if self.is_local:
                return os.path.exists(self.inside(path))
            return bool(self._fs.get_file_info(self.inside(path)).type.name != "NotFound")

    def entry(self, path: str = "") -> FileEntry | None:
        """What is known of one file or folder; None if there is none."""
        with self._doing("look up", path):
            info = self._fs.get_file_info(self.inside(path))
            return None if info.type.name == "NotFound" else self._entry(info)

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileEntry]:
        """What lies in a folder, by name; nothing if there is no such folder. Temporary files don't show."""
        from pyarrow import fs

        with self._doing("list", path):
            selector = fs.FileSelector(self.inside(path), recursive=recursive, allow_not_found=True)
            entries = [self._entry(info) for info in self._fs.get_file_info(selector)]
        return sorted((e for e in entries if not _is_temporary(e.name)), key=lambda e: e.path)

    def names(self, path: str = "") -> Sequence[str]:
        """The names in a folder; nothing if there is no such folder. A local one is looked at without pyarrow."""
        if not self.is_local:
            return [entry.name for entry in self.list(path)]
        with self._doing("list", path):
            try:
                return sorted(name for name in os.listdir(self.inside(path)) if not _is_temporary(name))
            except (FileNotFoundError, NotADirectoryError):
                return []

    # --- writing

    def write_atomic(self, path: str, content: str | bytes) -> None:
        """Write a file whole: a reader sees the old content or the new, also after a crash."""
        data = content.encode("utf-8") if isinstance(content, str) else content
        with self._doing("write", path, writing=True):
            if self.is_local:
                temporary = self._write_temporary(path, [data])
                os.replace(temporary, self.inside(path))
                _sync_folder(os.path.dirname(temporary))
            else:
                self._put(path, data)

    def write_new(self, path: str, content: str | bytes) -> bool:
        """Write a file if there is none, and say whether this call did.

        On a local file system exactly one of many writers wins. Object stores are asked first and written
        then, so two writers at the same instant may both believe that they won.
        """
        data = content.encode("utf-8") if isinstance(content, str) else content
        with self._doing("write", path, writing=True):
            if not self.is_local:
                if self._fs.get_file_info(self.inside(path)).type.name != "NotFound":
                    return False
                self._put(path, data)
                return True
            if os.path.exists(self.inside(path)):
                return False
            temporary = self._write_temporary(path, [data])
            try:
                os.link(temporary, self.inside(path))
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
            _sync_folder(os.path.dirname(temporary))
            return True

    def write_chunks(self, path: str, content: Iterable[bytes], modified: datetime | None = None) -> None:
        """Write what is large, as `write_atomic` does; `modified`: the time that it gets, where files have one."""
        with self._doing("write", path, writing=True):
            if self.is_local:
                temporary = self._write_temporary(path, content)
                if modified is not None:
                    os.utime(temporary, (modified.timestamp(), modified.timestamp()))
                os.replace(temporary, self.inside(path))
                return
            with self._fs.open_output_stream(self.inside(path)) as file:
                for piece in content:
                    file.write(piece)

    def open_output(self, path: str) -> NativeFile:
        """A new file for those who write it piece by piece; nobody else may look at it before it is closed."""
        with self._doing("write", path, writing=True):
            return self._fs.open_output_stream(self.inside(path))

    def make_folder(self, path: str = "") -> None:
        with self._doing("create", path, writing=True):
            self._fs.create_dir(self.inside(path), recursive=True)

    def move(self, source: str, target: str) -> None:
        """Move a file or a local folder, for good once this returns. Object stores copy and delete."""
        with self._doing("move", source, writing=True):
            folder = posixpath.dirname(self.inside(target))
            if not self.is_local:
                self._fs.move(self.inside(source), self.inside(target))
                return
            os.makedirs(folder, exist_ok=True)
            _sync_file(self.inside(source))
            os.replace(self.inside(source), self.inside(target))
            _sync_folder(folder)

    def delete(self, path: str = "") -> None:
        """Delete a file, or a folder with all that is in it. No error if it is not there."""
        with self._doing("delete", path, writing=True):
            where = self.inside(path)
            kind = self._fs.get_file_info(where).type.name
            try:
                if kind == "Directory":
                    self._fs.delete_dir(where)
                elif kind != "NotFound":
                    self._fs.delete_file(where)
            except FileNotFoundError:
                return  # somebody else was quicker, and gone is gone

    # --- inside

    def _put(self, path: str, data: bytes) -> None:
        with self._fs.open_output_stream(self.inside(path)) as file:
            file.write(data)

    def _write_temporary(self, path: str, content: Iterable[bytes]) -> str:
        target = self.inside(path)
        folder, name = os.path.split(target)
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "xb") as file:
                for piece in content:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        return temporary

    def _entry(self, info: fs.FileInfo) -> FileEntry:
        return FileEntry(
            path=posixpath.relpath(info.path, self._base),
            bytes=info.size or 0,
            modified=info.mtime or datetime.fromtimestamp(0, timezone.utc),
            is_folder=info.type.name == "Directory",
        )

    @contextmanager
    def _doing(self, verb: str, path: str, *, writing: bool = False) -> Iterator[None]:
        """Turn the file system's errors into ours, with what was being done to which file."""
        try:
            yield
        except OSError as cause:
            place = self.join(path) if path else self.root
            raise self._failure(f"can't {verb} {place}", place, cause, writing) from cause

    def _failure(self, message: str, place: str, cause: OSError, writing: bool) -> HeadwaterError:
        if writing and cause.errno in _UNWRITABLE:
            hint = "check the owner and permissions of the folder, or name another `warehouse`"
            return TerminalError(Code.WAREHOUSE_UNWRITABLE, f"{message}: {cause}", hint=hint)
        if not self.is_local:
            return TransientError(Code.STORAGE_FAILED, f"{message}: {cause}")
        if writing and cause.errno == errno.EROFS:
            hint = "mount it for writing; it goes on by itself then"
            return TransientError(Code.WAREHOUSE_UNWRITABLE, f"{message}: {cause}", hint=hint)
        return disk_error(message, cause, place)


def as_pattern(uri: str) -> str:
    """A path for Spark's readers that fits itself alone: they take brackets, braces and stars for patterns."""
    return _PATTERN.sub(r"\\\1", uri)


class FolderFiles(Files):
    """Files of a folder that others write to: what looks like a URI may be a name there, as `file:x.json`, or `x.json`
    in a folder `file:`."""

    def inside(self, path: str = "") -> str:
        is_full = path.startswith("/") or SCHEME.match(path) is not None
        return super().inside(path) if is_full or not path else posixpath.join(self._base, path)


def to_spark_uri(uri: str) -> str:
    """The URI under which Spark finds it: `s3a://` for `s3://`, `file://` for a local path."""
    scheme, rest = split_uri(uri)
    if scheme == "s3":
        return f"s3a://{rest}"
    if scheme == "":
        return f"file://{os.path.abspath(rest)}"
    return uri


def _local(uri: str) -> str | None:
    """The path of a root on this machine; None where it lies elsewhere."""
    scheme, rest = split_uri(uri)
    if scheme == "":
        return os.path.abspath(rest)
    return "/" + rest.lstrip("/") if scheme == "file" else None


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _sync_file(path: str) -> None:
    if os.path.isfile(path):
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
