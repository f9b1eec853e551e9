"""A value that never prints: only `reveal` gives it away, and a search for that word finds every place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MASK = "****"
_LOGIN = re.compile(r"(?<=://)[^/?#]*@")

_SECRET_KEY = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|(access|account|api|private|shared)[._-]?key|jaas",
    re.IGNORECASE,
)


class Secret:
    """Prints as `****` in text, JSON and tracebacks of models; refuses to be pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: Any) -> Secret:
        return self

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise TypeError("a secret is not pickled: reveal() it where it is used, and send only that")

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json"),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "format": "password", "writeOnly": True}

    @classmethod
    def _validate(cls, value: Any) -> Secret:
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("secret_type", "should be text")
        return cls(value)


def is_secret_key(key: str) -> bool:
    """Whether a free option of this name probably holds a secret: `fs.s3a.secret.key`, `sasl.jaas.config`."""
    return _SECRET_KEY.search(key) is not None


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown."""
    return {key: MASK if is_secret_key(key) else value for key, value in options.items()}


def address_without_login(address: str) -> str:
    """An address as it may be shown: `kafka://****@broker:9092/clicks`."""
    return _LOGIN.sub(f"{MASK}@", address)
