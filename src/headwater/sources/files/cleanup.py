"""What happens to files whose rows are in the lake: kept, deleted, or moved to an archive."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.logs import get_logger
from headwater.sources.files.config import FilesSource
from headwater.sources.files.folder import UNFINISHED, Folder
from headwater.sources.files.log import InputFile

log = get_logger(__name__)

ARCHIVE_HINT = "name a folder next to it, or one whose name begins with `_`"


def is_ingested(archive: str, root: str) -> bool:
    """Whether an archive lies where its source looks for files: names that begin with `_` are passed over."""
    below = archive.removeprefix(root.rstrip("/") + "/")
    return archive == root or (below != archive and not UNFINISHED.search(below))


class Cleaner:
    """Tidies up after a commit; doing it again does nothing, and what can't be done is a warning."""

    def __init__(self, spec: FilesSource, folder: Folder, archive: str | None) -> None:
        self._spec = spec
        self._folder = folder
        self._archive = None if archive is None else archive.rstrip("/")
        if self._archive is not None:
            self._refuse_inside()

    def clean(self, batch: int, taken: Sequence[InputFile]) -> None:
        if self._spec.after == "keep":
            return
        for file in taken:
            try:
                found = self._folder.find(file.path)
                if found is None:  # it has been done already
                    continue
                if self._folder.is_same(found, file):
                    self._clean_one(batch, file)
                else:
                    log.warning("file changed since it was read", source=self._spec.name, file=file.path)
            except HeadwaterError as error:
                log.warning("file not cleaned up", source=self._spec.name, file=file.path, error=str(error))

    def _clean_one(self, batch: int, file: InputFile) -> None:
        files = self._folder.files
        if self._archive is None:
            files.delete(file.path)
            return
        target = f"{self._archive}/{file.path}"
        if files.exists(target):  # an earlier file of this name: both are kept
            target = f"{target}.{batch:012d}"
        files.move(file.path, target)

    def _refuse_inside(self) -> None:
        """An archive that the source looks into would be ingested again."""
        root = self._folder.files.inside()
        archive = self._folder.files.inside(self._archive or "")
        if is_ingested(archive, root):
            raise UsageError(
                Code.INVALID_VALUE,
                f"`archive_to` {self._archive} lies in the folder that is ingested",
                where=self._spec.where,
                hint=ARCHIVE_HINT,
            )
