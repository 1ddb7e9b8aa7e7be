"""Values to stored JSON and back: what may be stored, the same on every database, with the path of what may not.

The rules are those of I-JSON (RFC 7493) tightened to what all supported databases keep: no NaN or infinity, no NUL, no
lone surrogate, integers within signed 64 bits, text keys that stay unique, 100 levels, a limit in bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import msgspec

from flask_solid_objects.errors import InvalidPayload, PayloadTooLarge

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_DEPTH = 100
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
# From here on the shortest text of a float need not be its exact value.
_EXACT_FLOATS = 2.0**53
_REMEDY = "use plain data, a dataclass, datetime, Decimal, UUID, enum, set, bytes or msgspec.Struct"

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
    except RecursionError as error:
        raise InvalidPayload(path, "is nested too deeply.") from error


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
    where, of_key = where.rstrip("`").removeprefix("key` in `"), where.startswith("key` in `")
    suffix = where.removeprefix("$") + (" key" if of_key else "") if separator else ""
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
    if isinstance(value, list | tuple):
        return [_checked(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value)]
    if isinstance(value, Decimal):
        return _decimal(value, path)
    return _converted(value, path, depth)


def _converted(value: object, path: str, depth: int) -> Any:
    """What msgspec makes of a richer type, one level at a time, so that paths stay exact."""
    if isinstance(value, set | frozenset):
        return _set(value, path, depth)
    if isinstance(value, msgspec.Struct) and value.__struct_config__.array_like:
        return _checked(_items(value), path, depth)
    fields = _fields(value)
    if fields is not None:
        return _checked(fields, path, depth)
    try:
        # Keys stay as they are, since two of them may become the same text; only our own check sees that.
        plain = msgspec.to_builtins(value, builtin_types=(Decimal,))
    except RecursionError as error:
        raise InvalidPayload(path, f"is nested deeper than {MAX_DEPTH} levels.") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidPayload(path, f"a {type(value).__name__} cannot be stored as JSON; {_REMEDY}.") from error
    if plain is value:
        raise InvalidPayload(path, f"a {type(value).__name__} cannot be stored as JSON; {_REMEDY}.")
    return _checked(plain, path, depth)


def _fields(value: object) -> dict[str, object] | None:
    """Dataclasses and structs are opened here, under the names that they are stored with."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        named = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        stored = {encoded: item for encoded, name in named if (item := getattr(value, name)) is not msgspec.UNSET}
        return stored if config.tag is None else {str(config.tag_field): config.tag, **stored}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if hasattr(value, each.name)}
    return None


def _items(value: msgspec.Struct) -> list[object]:
    tag = value.__struct_config__.tag
    items = [getattr(value, name) for name in value.__struct_fields__]
    return items if tag is None else [tag, *items]


def _set(values: set[Any] | frozenset[Any], path: str, depth: int) -> list[Any]:
    """A set in an order that does not change from process to process, so that equal states encode equally."""
    if {type(item) for item in values} in ({str}, {int}):
        values_in_order = sorted(values)
        return [_checked(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(values_in_order)]
    items = [_checked(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(values)]
    return sorted(items, key=_encoder.encode)


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
        key = key.value if isinstance(key, enum.Enum) else key
        key = str(key if isinstance(key, str) else _plain_key(key, path))
    return _text(key, f"{path} key")


def _plain_key(key: object, path: str) -> object:
    """A key of another type, as msgspec writes it."""
    if isinstance(key, bool) or key is None:
        raise InvalidPayload(path, f"the key {key!r} is not text; JSON keys are.")
    if isinstance(key, float | Decimal) and not math.isfinite(key):
        raise InvalidPayload(path, f"the key {key!r} is not a finite number.")
    if isinstance(key, int):
        return _integer(key, f"{path} key")
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
        shown = value if value.bit_length() <= 128 else f"an integer of {value.bit_length():,} bits"
        raise InvalidPayload(path, f"{shown} is outside signed 64 bits; store it as text.")
    return value


def _number(value: float, path: str) -> float | msgspec.Raw:
    """A float; a large one is written out with its ``.0``.

    JSONB keeps decimal digits: it would give ``1e23`` back as an integer, which is another number in Python.
    """
    if not math.isfinite(value):
        raise InvalidPayload(path, f"{value} is not a finite number; store None or a text instead.")
    if -_EXACT_FLOATS < value < _EXACT_FLOATS:
        return value
    return msgspec.Raw(f"{int(Decimal(repr(value)))}.0".encode())


def _decimal(value: Decimal, path: str) -> str:
    if not value.is_finite():
        raise InvalidPayload(path, f"{value} is not a finite number; store None or a text instead.")
    return str(value)
