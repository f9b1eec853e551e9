"""Files that land in a folder: each is ingested once, in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, IntegrityError, TerminalError, TransientError
from headwater.core.logs import get_logger
from headwater.sources.decoders.base import Decoder
from headwater.sources.files import wholeness
from headwater.sources.files.batches import BatchReader
from headwater.sources.files.cleanup import Cleaner
from headwater.sources.files.config import FilesSource
from headwater.sources.files.folder import Folder, age_in_seconds
from headwater.sources.files.frames import EXTRAS, block_size
from headwater.sources.files.headers import THREADS
from headwater.sources.files.log import FileBatch, FileLog, InputFile
from headwater.sources.files.paths import is_unicode, shown
from headwater.sources.files.unreadable import blames_a_path, blames_a_task, read_through
from headwater.sources.files.wholeness import FileState
from headwater.sources.reader import Lag, OffsetRange, Position, Reader, ReaderContext

FRESH = 30.0
"""Seconds for which a list of files is believed; older ones are checked before they are fixed."""
EVERYWHERE = 60.0
"""Seconds after which folders are looked into in which nothing came or went: their files may have changed."""
REMOTE = 5.0
"""Seconds between two looks into an object store at least."""

log = get_logger(__name__)


class FilesReader(Reader):
    """The position is the number of the last batch: `{"batch": 7}`.

    A record's `_position` is `<batch>/<file>#<place in the file>`, see `docs/sources/files.md`.
    """

    def __init__(self, spec: FilesSource, context: ReaderContext) -> None:
        self._spec = spec
        self._spark = context.spark
        self._flow = context.flow
        self._folder = Folder(spec, context.locate(spec.path), context.storage)
        self._log = FileLog(context.notes, is_local=self._folder.is_local)
        self._batches = BatchReader(spec, context.spark, self._folder.files, context.flow)
        self._batches.learn(self._log)
        archive = None if spec.archive_to is None else context.locate(spec.archive_to)
        self._cleaner = Cleaner(spec, self._folder, archive)
        self._waiting: list[InputFile] = []
        self._looked_at: float | None = None
        self._looked_everywhere = float("-inf")
        self._look_took = 0.0
        self._frozen = False
        self._changed: dict[str, int] = {}
        self._refused: set[str] = set()
        self._resting = False
        self._reading: int | None = None

    @property
    def decoder(self) -> Decoder:
        return self._batches.decoder

    @property
    def raw_decoder(self) -> Decoder:
        return self._batches.raw_decoder

    @property
    def metadata_columns(self) -> StructType:
        return EXTRAS if self._spec.file_columns else StructType()

    def next(self, start: Position | None) -> OffsetRange | None:
        begun = _number(start)
        if self._log.last < begun:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the list of the files ingested by {self._flow} ends before its last step",
                hint="put it back from a copy, or reset the flow",
            )
        if self._log.last > begun:  # fixed before a crash or a reset, and not read since
            return OffsetRange(
                {"batch": begun + 1}, bytes=self._log.batch(begun + 1).bytes, full=self._log.last > begun + 1
            )
        chosen = self._next_files()
        if not chosen:
            return None
        full = len(chosen) < len(self._waiting) or len(chosen) == self._spec.max_files
        return OffsetRange({"batch": begun + 1}, bytes=sum(file.bytes for file in chosen), full=full)

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        if self._log.last < int(ahead.end["batch"]):
            chosen = self._first(self._waiting)
            self._log.add(FileBatch(tuple(chosen), block_size(self._spark, chosen)))
            self._waiting = self._waiting[len(chosen) :]
        return ahead.end

    def read(self, start: Position | None, end: Position) -> DataFrame:
        number = int(end["batch"])
        assert number == _number(start) + 1, "a range is one batch"
        self._set_aside(number, self._unnamable(self._log.batch(number)))
        self._amend(number)
        self._reading = number
        batch = self._log.batch(number)
        try:
            records, problems = self._batches.read(number, batch)
        except (PySparkException, Py4JError, HeadwaterError) as error:
            # Most likely a file that is gone: every file is looked at before any is read.
            if not self._set_aside(number, self._vanished(batch)) and not self._blames_names(number, batch, error):
                raise
            records, problems = self._batches.read(number, self._log.batch(number))
        self._set_aside(number, problems)
        return records

    def confirm(self) -> None:
        if self._reading is not None and (changed := self._changed_since(self._reading)):
            raise self._is_changing(changed[0], "changed while it was read")

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        number = int(end["batch"])
        if self._amend(number):
            return True
        if not blames_a_task(error) and not blames_a_path(error):
            return False
        batch = self._log.batch(number)
        problems = self._vanished(batch)
        present = [file for file in batch.files if file.path not in {*batch.problems, *problems}]
        for file, cause in self._batches.unreadable(number, batch, present).items():
            if not blames_a_path(error):
                read_through(self._folder.files, file)
            problems[file.path] = f"the file can't be read: {cause}"
        return self._set_aside(number, problems)

    def freeze(self) -> None:
        self._look(everywhere=True)
        if self._resting:
            time.sleep(wholeness.QUIET + 0.1)
            self._look(everywhere=True)
        self._frozen = True

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Looking may take a fifth of the time at most, and an object store is not asked every second."""
        least = 4 * self._look_took if self._folder.is_local else max(REMOTE, 4 * self._look_took)
        stopping.wait(max(seconds, least))

    def lag(self, start: Position | None) -> Lag | None:
        if self._looked_at is None:
            self._look()
        begun_files = [file for batch in self._log.after(_number(start)) for file in batch.files]
        waiting = [*begun_files, *self._waiting]
        oldest = min((file.modified for file in waiting), default=None)
        return Lag(
            bytes=sum(file.bytes for file in waiting),
            seconds=0.0 if oldest is None else age_in_seconds(oldest),
            detail={"files": len(waiting), "changed": len(self._changed), "refused_links": len(self._refused)},
        )

    def committed(self, end: Position) -> None:
        if self._spec.after != "keep":
            number = int(end["batch"])
            batch = self._log.batch(number)
            # A file that became a dead letter, or has one that is not kept whole, stays: its bytes are nowhere else.
            taken = [file for file in batch.files if file.path not in batch.problems]
            if self._spec.after == "delete":
                taken = self._kept_whole(number, batch, taken)
            self._cleaner.clean(number, taken)

    # --- inside

    def _kept_whole(self, number: int, batch: FileBatch, taken: Sequence[InputFile]) -> list[InputFile]:
        """Those of a batch's files all of whose bytes are in the lake; none where that can't be found out."""
        try:
            large = self._batches.with_large_records(number, batch, list(self._found(taken).values()))
        except (PySparkException, Py4JError, HeadwaterError) as error:
            log.warning("files not cleaned up", source=self._spec.name, batch=number, error=str(error))
            return []
        return [file for file in taken if file.path not in large]

    def _changed_since(self, number: int) -> list[InputFile]:
        """Files of a batch that are not as the list says, as they are now."""
        batch = self._log.batch(number)
        there = self._found([file for file in batch.files if file.path not in batch.problems])
        pairs = ((file, there.get(file.path, file)) for file in batch.files)
        return [
            now
            for then, now in pairs
            if not self._folder.is_same(then, now)
            or (then.path not in batch.problems and self._folder.leads_out(then.path))
        ]

    def _amend(self, number: int) -> bool:
        """A file that changes before its rows are in the lake is ingested as it is now; whether there was one."""
        changed = {file.path: file for file in self._changed_since(number)}
        for file in changed.values():
            if self._folder.state(file) is not FileState.WHOLE:
                raise self._is_changing(file, "is being written again")
            log.info("file changed before it was read", source=self._spec.name, file=shown(file.path))
        if changed:
            self._log.amend(number, [changed.get(file.path, file) for file in self._log.batch(number).files])
        return bool(changed)

    def _is_changing(self, file: InputFile, what: str) -> TransientError:
        return TransientError(
            Code.SOURCE_FILE_CHANGED,
            f"{shown(self._folder.files.join(file.path))} {what}",
            where=self._spec.where,
            hint="nothing of it was ingested; the step is tried again",
        )

    def _unnamable(self, batch: FileBatch) -> dict[str, str]:
        """Files of a batch that may not be read, or that Spark has no name for."""
        found: dict[str, str] = {}
        for file in batch.files:
            if self._folder.leads_out(file.path):
                found[file.path] = "a link that leads out of the source's folder is not followed (`follow_links: true`)"
            elif not is_unicode(file.path):
                found[file.path] = "the file can't be read: its name is not valid UTF-8"
        return found

    def _blames_names(self, number: int, batch: FileBatch, error: Exception) -> bool:
        """Whether a batch can't be read for the sake of names that Spark does not take; they are set aside."""
        if not blames_a_path(error):
            return False
        present = [file for file in batch.files if file.path not in batch.problems]
        found = self._batches.unreadable(number, batch, present)
        return self._set_aside(number, {file.path: f"the file can't be read: {cause}" for file, cause in found.items()})

    def _vanished(self, batch: FileBatch) -> dict[str, str]:
        """Files of a batch that are no more; an error unless they may be left out."""
        there = self._found(batch.files)
        gone = [file.path for file in batch.files if file.path not in there and file.path not in batch.problems]
        if gone and self._spec.on_missing == "fail":
            others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise TerminalError(
                Code.SOURCE_FILE_MISSING,
                f"{shown(self._folder.files.join(gone[0]))}{others} vanished before being read",
                where=self._spec.where,
                hint="put it back, or set `on_missing: skip` to keep a dead letter and go on",
            )
        return dict.fromkeys(gone, "the file vanished before it was read")

    def _found(self, files: Sequence[InputFile]) -> dict[str, InputFile]:
        """These files as they are now, without those that are gone."""
        if self._folder.is_local:
            return {file.path: file for file in (self._folder.find(one.path) for one in files) if file is not None}
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda file: self._folder.find(file.path), files)
            return {file.path: file for file in found if file is not None}

    def _set_aside(self, number: int, problems: Mapping[str, str]) -> bool:
        """Write down which files of a batch can't be read; whether there is a new one among them."""
        known = self._log.batch(number).problems
        new = {path: cause for path, cause in problems.items() if path not in known}
        for path, cause in new.items():
            log.warning("file becomes a dead letter", source=self._spec.name, file=shown(path), cause=cause)
        if new:
            self._log.tell(number, {**known, **new})
        return bool(new)

    def _next_files(self) -> list[InputFile]:
        chosen = self._first(self._waiting)
        if len(chosen) == len(self._waiting) and not self._frozen:
            self._look()  # a step could take more than is known
        elif self._looked_at is not None and time.monotonic() - self._looked_at > FRESH:
            self._check_again(len(chosen))
        return self._first(self._waiting)

    def _first(self, waiting: Sequence[InputFile]) -> list[InputFile]:
        """As much as fits into a step, and at least one file."""
        limit, size = self._spec.max_bytes, 0
        for n, file in enumerate(waiting[: self._spec.max_files]):
            size += file.bytes
            if limit is not None and size > limit and n > 0:
                return list(waiting[:n])
        return list(waiting[: self._spec.max_files])

    def _look(self, *, everywhere: bool = False) -> None:
        """Find new files. Locally, most looks pass by folders in which nothing came or went since the last."""
        begun = time.monotonic()
        everywhere = everywhere or not self._folder.is_local or begun - self._looked_everywhere > EVERYWHERE
        # Were this look to fail halfway, the next one could not tell which folders it has been in.
        last, self._looked_everywhere = self._looked_everywhere, float("-inf")
        waiting = {} if everywhere else {file.path: file for file in self._waiting}
        self._resting = False
        for file in self._folder.look(everywhere=everywhere):
            state = self._folder.state(file) if self._is_new(file) else None
            if state is FileState.WHOLE:
                waiting[file.path] = file
            else:
                waiting.pop(file.path, None)
            self._resting |= state is FileState.RESTING
        self._waiting = sorted(waiting.values(), key=lambda file: (file.modified, file.path))
        self._looked_at = time.monotonic()
        self._look_took = self._looked_at - begun
        self._looked_everywhere = begun if everywhere else last
        self._tell_refused()
        self._batches.learn(waiting)

    def _tell_refused(self) -> None:
        refused = set(self._folder.refused_links)
        for path in sorted(refused - self._refused):
            log.warning(
                "link leads out of the folder", source=self._spec.name, link=shown(path), hint="`follow_links: true`"
            )
        self._refused = refused

    def _check_again(self, count: int) -> None:
        """Files that were found long ago may be gone or changed by now."""
        self._waiting[:count] = self._found(self._waiting[:count]).values()

    def _is_new(self, file: InputFile) -> bool:
        if file.path not in self._log:
            return True
        if self._log.is_same(file):
            return False
        if self._spec.after != "keep" or self._spec.on_change == "reload":
            return True
        if self._log.was_empty(file.path) and self._spec.file_format != "binary":
            return True  # nothing of it is in the lake
        if self._spec.on_change == "fail":
            raise TerminalError(
                Code.SOURCE_FILE_CHANGED,
                f"{shown(self._folder.files.join(file.path))} has changed since it was ingested",
                where=self._spec.where,
                hint="put it back as it was, or set `on_change: reload` to take it in again, or `warn` to leave it",
            )
        if self._changed.get(file.path) != file.modified:
            self._changed[file.path] = file.modified
            log.warning("file changed after it was ingested", source=self._spec.name, file=shown(file.path))
        return False


def _number(start: Position | None) -> int:
    return 0 if start is None else int(start["batch"])
