"""Which annotations can be stored: those whose values survive the trip through JSON and typed decoding."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as types


def problem_of_type(kind: Any) -> str | None:
    """Why values of this type cannot be stored, with the remedy; None when they can."""
    try:
        described = types.type_info(kind)
        msgspec.json.Decoder(kind)
        _ = kind is Any or kind | msgspec.UnsetType  # Final and the like are no types of values
    except (TypeError, ValueError) as error:
        return f"{_name(kind)} cannot be stored as JSON: {error}"
    custom = _custom(described, set())
    if custom is None:
        return None
    return (
        f"{_name(custom)} cannot be stored as JSON; use plain data, a dataclass, datetime, Decimal, UUID, enum, set, "
        "bytes or msgspec.Struct"
    )


def _custom(described: Any, seen: set[Any]) -> Any:
    """The first class within a type that msgspec has no JSON form for."""
    if isinstance(described, types.CustomType):
        return described.cls
    if isinstance(described, types.RawType | types.ExtType):
        return type(described)
    owner = getattr(described, "cls", None)
    if owner is not None:
        if owner in seen:
            return None
        seen.add(owner)
    for part in _parts(described):
        found = _custom(part, seen)
        if found is not None:
            return found
    return None


def _parts(described: Any) -> list[Any]:
    parts: list[Any] = []
    for name in ("item_type", "key_type", "value_type"):
        part = getattr(described, name, None)
        if part is not None:
            parts.append(part)
    parts.extend(getattr(described, "item_types", ()))
    parts.extend(getattr(described, "types", ()))
    parts.extend(field.type for field in getattr(described, "fields", ()))
    return parts


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
