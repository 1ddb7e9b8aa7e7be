"""What may be stored as JSON, what may not, and that the error names the path."""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_solid_objects.errors import InvalidPayload, PayloadTooLarge
from flask_solid_objects.payloads import decode, decode_as, encode, same


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int


@dataclass
class Line:
    start: Point
    names: set[str]


class Size(str, enum.Enum):  # noqa: UP042 - the older form, whose text is not its value
    BIG = "big"


class Box(msgspec.Struct, tag="box", rename="camel", omit_defaults=True):
    any_thing: Any = None


class Pair(msgspec.Struct, array_like=True, tag="pair"):
    one: Any
    two: Any = None


class Named(NamedTuple):
    one: Any
    two: int = 0


@dataclass
class Counted:
    limit: ClassVar[int] = 5
    count: int = 0


class Opaque:
    pass


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "v"),
        ({"a": [1, math.inf]}, "v.a[1]"),
        (Decimal("NaN"), "v"),
        ([Decimal("Infinity")], "v[0]"),
        (2**63, "v"),
        (-(2**63) - 1, "v"),
        ({"n": 2**64}, "v.n"),
        ("a\0b", "v"),
        ({"a\0": 1}, "v key"),
        ("\ud800", "v"),
        ({"\udfff": 1}, "v key"),
        ({1: "a", "1": "b"}, "v"),
        ({None: 1}, "v"),
        ({True: 1}, "v"),
        (Opaque(), "v"),
        ({"a": {"b": Opaque()}}, "v.a.b"),
        (Line(Point(1, 2**70), set()), "v.start.y"),
        (1j, "v"),
        (Counted, "v"),
        ([10**5000], "v[0]"),
        ({10**5000: 1}, "v key"),
        ({2**64: 1}, "v key"),
        ({Decimal("NaN"): 1}, "v"),
        ({Decimal(1), Decimal("NaN")}, None),
        (Box(Decimal("NaN")), "v.anyThing"),
        (Box([{"a": math.nan}]), "v.anyThing[0].a"),
        (Box({1: "a", "1": "b"}), "v.anyThing"),
        (Box([Opaque()]), "v.anyThing[0]"),
        (Pair(1, Decimal("Infinity")), "v[2]"),
        (Named(Decimal("sNaN")), "v[0]"),
    ],
)
def test_value_that_cannot_be_stored_is_refused_with_its_path(value: object, path: str | None) -> None:
    """Each bad value gives one error that names where it is; in a set the place is any."""
    with pytest.raises(InvalidPayload) as raised:
        encode(value, path="v")

    assert path in (raised.value.path, None)


def test_depth_is_limited_to_100_levels() -> None:
    """100 levels are stored, 101 are refused, and endless recursion is an error too."""
    endless: list[Any] = []
    endless.append(endless)

    assert decode(encode(nested(100), path="v")) == nested(100)
    for value in (nested(101), endless):
        with pytest.raises(InvalidPayload, match="100 levels"):
            encode(value, path="v")


def test_size_is_limited_in_bytes() -> None:
    """The limit counts bytes of UTF-8, and the error names the setting."""
    assert encode("é", path="v", limit=4) == '"é"'
    with pytest.raises(PayloadTooLarge) as raised:
        encode("éé", path="v", limit=5, setting="SOLID_OBJECTS_MAX_PAYLOAD_BYTES")

    assert (raised.value.size, raised.value.limit) == (6, 5)
    assert "SOLID_OBJECTS_MAX_PAYLOAD_BYTES" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), datetime),
        (Decimal("1.10"), Decimal),
        (uuid.UUID(int=7), uuid.UUID),
        (Colour.RED, Colour),
        (Point(1, 2), Point),
        (Line(Point(1, 2), {"b", "a"}), Line),
        ({3, 1, 2}, set[int]),
        (b"\x00\xff", bytes),
        ((1, "a"), tuple[int, str]),
        ({1: "a"}, dict[int, str]),
        (2**63 - 1, int),
        (-(2**63), int),
        (0.1, float),
        (Box({"a": 1}), Box),
        (Pair(1, "a"), Pair),
        (Named("a", 2), Named),
        (Counted(count=3), Counted),
        ({Size.BIG: 1}, dict[Size, int]),
    ],
)
def test_rich_values_survive_the_trip(value: object, kind: Any) -> None:
    """Typed decoding gives back what was encoded."""
    assert decode_as(encode(value, path="v"), kind, path="v") == value


def test_equal_sets_encode_equally() -> None:
    """A set has one encoding, whatever order it iterates in."""
    assert encode({"b", "a", "c"}, path="v") == '["a","b","c"]'
    assert encode({10, 9}, path="v") == "[9,10]"
    assert encode(Box({"b", "a"}), path="v") == '{"type":"box","anyThing":["a","b"]}'
    assert encode({frozenset({2}), frozenset({1})}, path="v") == "[[1],[2]]"


def test_misfit_names_the_path() -> None:
    """A value of another type than the annotation is named with its path."""
    with pytest.raises(InvalidPayload) as raised:
        decode_as('{"start":{"x":1,"y":"no"},"names":[]}', Line, path="arguments.line")

    assert raised.value.path == "arguments.line.start.y"
    with pytest.raises(InvalidPayload) as raised:
        decode_as('{"x":1}', dict[int, int], path="arguments")

    assert raised.value.path == "arguments key"


def test_stored_texts_compare_by_value() -> None:
    """Key order and the sign of zero do not matter; true is not 1."""
    assert same('{"a":1,"b":[-0.0]}', '{"b":[0.0],"a":1}')
    assert not same("true", "1")
    assert not same('{"a":[1,2]}', '{"a":[2,1]}')


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_survives(value: object) -> None:
    """Anything within the rules comes back equal."""
    assert decode(encode(value, path="v")) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e23)
@example(1.2345678901234567e17)
@example(-1.7976931348623157e308)
@example(2.0**53)
@example(5e-324)
def test_every_float_survives_a_database_that_keeps_decimal_digits(value: float) -> None:
    """JSONB writes all digits and no exponent; the number that comes back is the same, and so is the text."""
    stored = encode([value], path="v")
    returned = f"[{Decimal(stored.strip('[]')):f}]"

    assert decode(returned) == [value]
    assert same(stored, returned)
    assert encode(decode(returned), path="v") == encode(decode(encode(decode(returned), path="v")), path="v")
