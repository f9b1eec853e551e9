"""Whether a store that speaks S3 refuses to put an object that is there: deltalake's commits rely on it.

A store that does not know `If-None-Match: *` ignores it and says nothing: of two writers the second replaces the first
one's commit. deltalake can't be asked for such a put, so it is signed here. Amazon's own store need not be tried.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, urlsplit

from headwater.core.errors import Code, TransientError, Unsupported

_EMPTY = hashlib.sha256(b"").hexdigest()
_proven: set[tuple[str, str]] = set()
"""Endpoints and buckets that were seen to refuse a second put."""
_guard = threading.Lock()


def require_conditional_puts(folder: str, storage: Mapping[str, Any]) -> None:
    """Called before a commit to a table's folder, and tried once per bucket and process. Raises `Unsupported` where two
    writers could both win: Spark, whose log store looks at the same, commits there or says what to do."""
    place, s3 = urlsplit(folder), storage.get("s3")
    if place.scheme not in ("s3", "s3a") or s3 is None or not s3.endpoint:
        return
    key = (s3.endpoint, place.netloc)
    with _guard:
        if key in _proven:
            return
        bucket = _bucket_of(s3, place.netloc)
        if bucket is None:
            raise Unsupported(f"no keys to try the object store of {folder} with")
        probe = f"{place.path.strip('/')}/_delta_log/_headwater_probe_{uuid.uuid4().hex}"
        try:
            statuses = [bucket.request("PUT", probe, {"If-None-Match": "*"}) for _ in range(2)]
        finally:
            bucket.request("DELETE", probe)
        if statuses[0] // 100 != 2 or statuses[1] not in (409, 412):
            raise Unsupported(
                f"the object store of {folder} ignores If-None-Match, so that two writers could both win a commit"
                if statuses[1] // 100 == 2
                else f"the object store of {folder} answered a conditional put with {statuses}"
            )
        _proven.add(key)


@dataclass(frozen=True)
class _Bucket:
    """Requests without a body, signed as S3's version 4 asks for."""

    address: str
    region: str
    access_key: str
    secret_key: str
    token: str | None

    def request(self, method: str, key: str, headers: Mapping[str, str] | None = None) -> int:
        """The status of the answer."""
        url = f"{self.address}/{quote(key, safe='/-_.~')}"
        signed = self._signed(method, urlsplit(url).netloc, urlsplit(url).path)
        request = urllib.request.Request(
            url, b"" if method == "PUT" else None, signed | dict(headers or {}), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError as error:
            raise TransientError(Code.STORAGE_FAILED, f"{self.address} can't be reached: {error}") from error

    def _signed(self, method: str, host: str, path: str) -> dict[str, str]:
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": now}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(headers)
        lines = [method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, _EMPTY]
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        who = f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}"
        return headers | {"Authorization": f"{who}, SignedHeaders={names}, Signature={signature}"}


def _bucket_of(s3: Any, name: str) -> _Bucket | None:
    """The bucket with the project's keys, or with those in the environment; None where neither has any."""
    if s3.access_key and s3.secret_key:
        access, secret = s3.access_key.reveal(), s3.secret_key.reveal()
        token = s3.session_token and s3.session_token.reveal()
    else:
        access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        token = os.environ.get("AWS_SESSION_TOKEN")
    if not access or not secret:
        return None
    endpoint = urlsplit(s3.endpoint if "://" in s3.endpoint else f"https://{s3.endpoint}")
    base = endpoint.path.rstrip("/")
    host = f"{endpoint.netloc}{base}/{name}" if s3.path_style else f"{name}.{endpoint.netloc}{base}"
    return _Bucket(f"{endpoint.scheme}://{host}", s3.region or "us-east-1", access, secret, token or None)
