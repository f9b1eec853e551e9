"""A Confluent-compatible schema registry, asked for each schema once."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError, Where
from headwater.core.secret import Secret, address_without_login
from headwater.core.storage import Files

ANSWER_SECONDS = 10
NOTE = "schemas.json"
_NOT_THERE = 404
_REFUSED = (401, 403)


@dataclass(frozen=True)
class Schema:
    """One registered schema with those that it refers to, the deepest first, each with the name it goes by."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[tuple[str, str], ...] = ()


class SchemaRegistry:
    """Schemas by id. An id never changes its meaning, so those found are kept, in the flow's notes too; a missing one
    may be registered later, and is asked for again."""

    def __init__(self, address: str, auth: Secret | None, notes: Files, where: Where) -> None:
        parts = urlsplit(address)
        login = parts.netloc.rpartition("@")[0]
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self.address = urlunsplit(bare).rstrip("/")
        """Without a user and password."""
        self._login = auth.reveal() if auth else login
        self._notes = notes
        self._where = where
        self._known = self._kept()

    @property
    def known(self) -> dict[int, Schema]:
        return self._known

    def learn(self, ids: Iterable[int]) -> None:
        """Ask for those that are not known yet; what the registry does not have stays unknown."""
        found = {id: schema for id in sorted(set(ids) - set(self._known)) if (schema := self._fetch(id)) is not None}
        if found:
            self._known = {**self._known, **found}
            schemas = {id: asdict(schema) for id, schema in self._known.items()}
            self._notes.write_atomic(NOTE, json.dumps({"registry": self.address, "schemas": schemas}))

    def _kept(self) -> dict[int, Schema]:
        text = self._notes.find(NOTE)
        kept = json.loads(text) if text is not None else {}
        if kept.get("registry") != self.address:
            return {}
        return {
            int(id): Schema(one["kind"], one["text"], tuple((name, found) for name, found in one["references"]))
            for id, one in kept["schemas"].items()
        }

    def _fetch(self, id: int) -> Schema | None:
        answer = self._get(f"schemas/ids/{id}")
        if answer is None:
            return None
        kind = answer.get("schemaType") or "AVRO"
        references: dict[str, str] = {}
        self._collect(answer, kind, references)
        text = answer["schema"] if kind != "PROTOBUF" else self._serialized(f"schemas/ids/{id}", answer)
        return Schema(kind, text, tuple(references.items()))

    def _collect(self, answer: dict[str, Any], kind: str, found: dict[str, str]) -> None:
        for reference in answer.get("references") or ():
            if reference["name"] in found:
                continue
            path = f"subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            inner = self._get(path)
            if inner is None:
                raise TransientError(
                    Code.SOURCE_UNAVAILABLE,
                    f"the schema registry {address_without_login(self.address)} has no {path}, which another schema"
                    " refers to",
                    where=self._where,
                )
            self._collect(inner, kind, found)
            found[reference["name"]] = inner["schema"] if kind != "PROTOBUF" else self._serialized(path, inner)

    def _serialized(self, path: str, plain: dict[str, Any]) -> str:
        """A Protobuf schema as its compiled form where the registry has that, else as its source."""
        answer = self._get(f"{path}?format=serialized")
        text: str = (answer or plain)["schema"]
        return text

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(self.request(path), timeout=ANSWER_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _NOT_THERE:
                    return None
                raise self.failure(f"answers {error.code}", refused=error.code in _REFUSED) from error
        except (OSError, ValueError) as error:
            raise self.failure(f"can't be reached: {getattr(error, 'reason', error)}") from error

    def request(self, path: str, body: bytes | None = None) -> urllib.request.Request:
        """A question to the registry, with its login; `body`: JSON that is posted."""
        request = urllib.request.Request(f"{self.address}/{path}", body, {"Accept": "application/json"})
        if body is not None:
            request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        if self._login:
            request.add_header("Authorization", f"Basic {base64.b64encode(self._login.encode()).decode()}")
        return request

    def failure(self, what: str, *, refused: bool = False) -> HeadwaterError:
        """An error that says what the registry has done."""
        message = f"the schema registry {address_without_login(self.address)} {what}"
        if refused:
            hint = "check `schema_registry_auth`"
            return UsageError(Code.SOURCE_UNAVAILABLE, message, where=self._where, hint=hint)
        return TransientError(Code.SOURCE_UNAVAILABLE, message, where=self._where)
