"""The file systems behind URIs: those of object stores are opened with the project's `storage`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headwater.core.errors import Code, TransientError, UsageError
from headwater.core.secret import Secret

if TYPE_CHECKING:
    from pyarrow import fs  # a fifth of a second of loading, which a look at a local file does without

SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def split_uri(uri: str) -> tuple[str, str]:
    """The scheme of a URI and what follows it; a path of this machine has none."""
    match = SCHEME.match(uri)
    if match:
        return match.group(1).lower(), uri[match.end() :]
    return "", uri.removeprefix("file:")


def open_file_system(uri: str, storage: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    from pyarrow import fs

    scheme, rest = split_uri(uri)
    try:
        if scheme in ("s3", "s3a"):
            return _s3(_options(storage, "s3")), rest
        if scheme in ("gs", "gcs"):
            return _gcs(_options(storage, "gcs")), rest
        if scheme in ("abfs", "abfss"):
            return _azure(uri, _options(storage, "azure"))
        if scheme == "hdfs":
            return fs.HadoopFileSystem.from_uri(uri), urlsplit(uri).path
    except OSError as cause:
        raise TransientError(Code.STORAGE_FAILED, f"can't open {uri}: {cause}") from cause
    raise UsageError(
        Code.INVALID_VALUE,
        f"no storage is known for '{scheme}://'",
        hint="use a local path, file://, s3://, gs://, abfss:// or hdfs://",
    )


def _s3(options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs

    endpoint = options.get("endpoint")
    arguments: dict[str, Any] = {"region": options.get("region")}
    if options.get("access_key"):
        arguments |= {name: options.get(name) for name in ("access_key", "secret_key", "session_token")}
    if endpoint:
        scheme, rest = split_uri(str(endpoint))
        arguments |= {"endpoint_override": rest, "scheme": scheme or "https"}
        arguments["force_virtual_addressing"] = not options.get("path_style", False)
    return fs.S3FileSystem(**{name: value for name, value in arguments.items() if value is not None})


def _gcs(options: Mapping[str, Any]) -> fs.FileSystem:
    if options.get("credentials_file"):
        # Google's client, which pyarrow wraps, is told of a key file in no other way.
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(options["credentials_file"])
    from pyarrow import fs

    return fs.GcsFileSystem()


def _azure(uri: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    from pyarrow import fs

    place = urlsplit(uri)
    account = str(options.get("account") or (place.hostname or "").split(".")[0])
    arguments = {"account_name": account, "account_key": options.get("account_key")}
    filesystem = fs.AzureFileSystem(**{name: value for name, value in arguments.items() if value is not None})
    return filesystem, azure_path(uri)


def azure_path(uri: str) -> str:
    place = urlsplit(uri)
    return f"{place.username}{place.path}"


def _options(storage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One store's options, from a mapping or a definition; secrets are opened here and nowhere before."""
    section: Any = storage.get(name) or {}
    options = section if isinstance(section, Mapping) else dict(section)
    return {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in options.items()
        if value not in (None, "")
    }
