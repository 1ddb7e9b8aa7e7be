"""Values to stored JSON and back: what may be stored, the same on every database, with the path of what may not.

The rules are those of I-JSON (RFC 7493) tightened to what all supported databases keep: no NaN or infinity, no NUL, no
lone surrogate, integers within signed 64 bits, text keys that stay unique, 100 levels, a limit in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import msgspec

from flask_solid_objects.errors import InvalidPayload, PayloadTooLarge

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_DEPTH = 100
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder(decimal_format="string")


def encode(value: object, *, path: str, limit: int | None = None, setting: str = "", walk: bool = True) -> str:
    """Encode a value as compact JSON.

    :param path: what the value is, for errors: ``arguments``, ``state``, ``result``.
    :param limit: in bytes of UTF-8; ``setting`` names it.
    :param walk: False for values that are known to hold nothing forbidden, such as those read from the database.
    :raises InvalidPayload, PayloadTooLarge: naming the path of the value that cannot be stored.
    """
    if walk:
        value = _checked(value, path, 0)
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise InvalidPayload(path, f"cannot be stored as JSON: {error}.") from error
    if limit is not None and len(data) > limit:
        raise PayloadTooLarge(path, len(data), limit, setting)
    return data.decode()


def decode(text: str | bytes) -> Any:
    """Decode stored JSON; what a driver has decoded already passes through."""
    return msgspec.json.decode(text) if isinstance(text, str | bytes) else text


def decode_as(text: str, kind: Any, *, path: str) -> Any:
    """Decode stored JSON into a type.

    :raises InvalidPayload: naming the path of what does not fit.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise misfit(error, path) from error
    except msgspec.DecodeError as error:
        raise InvalidPayload(path, f"is not JSON: {error}.") from error


def convert(value: object, kind: Any, *, path: str) -> Any:
    """Convert plain JSON values into a type, as decoding would.

    :raises InvalidPayload: naming the path of what does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise misfit(error, path) from error


def misfit(error: msgspec.ValidationError, path: str) -> InvalidPayload:
    """msgspec's error as ours: its path ``$.a[0]`` continues the path that we know."""
    text = str(error)
    problem, separator, where = text.partition(" - at `")
    suffix = where.rstrip("`").removeprefix("key in ").removeprefix("$") if separator else ""
    return InvalidPayload(path + suffix, f"{problem[:1].lower()}{problem[1:]}.")


def same(one: str | bytes | object, other: str | bytes | object) -> bool:
    """Compare two stored JSON texts by value: databases keep neither the order of keys nor the sign of zero."""
    return bool(_comparable(decode(one)) == _comparable(decode(other)))  # type: ignore[arg-type]


def _comparable(value: Any) -> Any:
    """True equals 1 in Python, but not in JSON."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return value


def _checked(value: object, path: str, depth: int) -> Any:
    """The value in plain JSON types, or the error of the first part that cannot be stored."""
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _text(value, path)  # type: ignore[arg-type]
    if kind is int:
        return _integer(value, path)  # type: ignore[arg-type]
    if kind is float:
        return _number(value, path)  # type: ignore[arg-type]
    if depth >= MAX_DEPTH and isinstance(value, Mapping | list | tuple | set | frozenset):
        raise InvalidPayload(path, f"is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, Mapping):
        return _object(value, path, depth)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [_checked(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value)]
    if isinstance(value, Decimal) and not value.is_finite():
        raise InvalidPayload(path, f"{value} is not a finite number; store None or a text instead.")
    return _converted(value, path, depth)


def _converted(value: object, path: str, depth: int) -> Any:
    """What msgspec makes of a richer type, one level at a time, so that paths stay exact."""
    if isinstance(value, set | frozenset):
        return [_checked(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(_ordered(value))]
    fields = _fields(value)
    if fields is not None:
        return _object(fields, path, depth)
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
    except RecursionError as error:
        raise InvalidPayload(path, f"is nested deeper than {MAX_DEPTH} levels.") from error
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "use plain data, a dataclass, datetime, Decimal, UUID, enum, set, bytes or msgspec.Struct"
        raise InvalidPayload(path, f"a {type(value).__name__} cannot be stored as JSON; {remedy}.") from error
    if type(plain) is type(value) and plain is value:
        raise InvalidPayload(path, f"a {type(value).__name__} cannot be stored as JSON.")
    return _checked(plain, path, depth)


def _fields(value: object) -> dict[str, object] | None:
    """Dataclasses are opened here; everything else that has fields is msgspec's to convert."""
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _ordered(values: set[Any] | frozenset[Any]) -> list[Any]:
    """A set in an order that does not change from process to process, so that equal states encode equally."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _object(value: Mapping[Any, object], path: str, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        name = _key(key, path)
        if name in result:
            raise InvalidPayload(path, f"two keys become {name!r} as text; keys must stay unique.")
        result[name] = _checked(item, f"{path}.{name}", depth + 1)
    return result


def _key(key: object, path: str) -> str:
    if type(key) is not str:
        plain = key if isinstance(key, str) else _plain_key(key, path)
        key = str(plain)
    return _text(key, f"{path} key")


def _plain_key(key: object, path: str) -> object:
    """A key of another type, as msgspec writes it."""
    if isinstance(key, bool) or key is None:
        raise InvalidPayload(path, f"the key {key!r} is not text; JSON keys are.")
    if isinstance(key, float) and not math.isfinite(key):
        raise InvalidPayload(path, f"the key {key!r} is not a finite number.")
    try:
        return next(iter(msgspec.to_builtins({key: None}, str_keys=True)))
    except (TypeError, ValueError) as error:
        raise InvalidPayload(path, f"the key {key!r} cannot be text; JSON keys are.") from error


def _text(value: str, path: str) -> str:
    if "\0" in value:
        raise InvalidPayload(path, "holds a NUL character, which no database stores in text; remove it.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidPayload(
                path, "holds a lone surrogate, which is not text; decode the bytes properly."
            ) from error
    return value


def _integer(value: int, path: str) -> int:
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise InvalidPayload(path, f"{value} is outside signed 64 bits; store it as text.")
    return value


def _number(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise InvalidPayload(path, f"{value} is not a finite number; store None or a text instead.")
    return value
