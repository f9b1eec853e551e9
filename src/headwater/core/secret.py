"""A value that never prints: only `reveal` gives it away, and a search for that word finds every place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MASK = "****"
BARE_SIGN = "has a password with an `@`, `/`, `?` or `#` in it, which ends the password there: the rest would be shown"
ENCODE = "write @ as %40, / as %2F, ? as %3F and # as %23 in the password"
_LOGIN = re.compile(r"(?<=://)[^/?#]*@")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;?#\s]+)=([^&;#\s]*)")
_PASSWORD = re.compile(r"://[^:/@\s]*:([^@\s]*)@|password\s*=\s*('[^']*'|[^\s&;#]+)", re.IGNORECASE)
_PORTS = re.compile(r"(\[[^\]]*\]|[^:,]*)(:\d*)?(,(\[[^\]]*\]|[^:,]*)(:\d*)?)*")

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
    """An address as it may be shown: `kafka://****@broker:9092/clicks`, `postgresql://****@host/db?password=****`."""
    return _PARAMETER.sub(
        lambda one: f"{one[1]}={MASK}" if is_secret_key(unquote(one[1])) else one[0], _LOGIN.sub(f"{MASK}@", address)
    )


def hidden(text: str, address: Secret) -> str:
    """What another program says, without the address or a password in it: some repeat what they can't parse."""
    whole = address.reveal()
    shown = text.replace(whole, MASK) if whole else text
    shown = re.sub(r"(://[^:/@\s]*:)[^@\s]*@", rf"\1{MASK}@", shown)
    secrets = {part.strip("'") for parts in _PASSWORD.findall(whole) for part in parts}
    secrets |= {value for key, value in _PARAMETER.findall(whole) if is_secret_key(unquote(key))}
    for one in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
        if len(one) > 2:
            shown = shown.replace(one, MASK)
    return shown


def has_bare_sign(address: str) -> bool:
    """Whether a login holds an `@`, `/`, `?` or `#` as it is: a part of the password would be taken for the host."""
    begin, scheme, rest = address.partition("://")
    if not scheme or " " in begin:
        return False
    served = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in served:
        return served.count("@") > 1
    return "@" in re.split(r"[?]", rest, maxsplit=1)[0] or ("@" in rest and not _PORTS.fullmatch(served))
