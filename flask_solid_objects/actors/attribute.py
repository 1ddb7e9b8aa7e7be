"""``attribute(...)``: a state attribute that needs more than an annotation and a default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

T = TypeVar("T")
MISSING: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """What stands on the class until it is registered."""

    default: Any
    default_factory: Callable[[], Any] | None
    observable: bool | Literal["value"]
    sensitive: bool


@overload
def attribute(default: T, *, observable: bool | Literal["value"] = ..., sensitive: bool = ...) -> T: ...


@overload
def attribute(
    *, default_factory: Callable[[], T], observable: bool | Literal["value"] = ..., sensitive: bool = ...
) -> T: ...


def attribute(
    default: Any = MISSING,
    *,
    default_factory: Callable[[], Any] | None = None,
    observable: bool | Literal["value"] = False,
    sensitive: bool = False,
) -> Any:
    """Declare a state attribute.

    :param default: copied for each actor; or ``default_factory``, called for each actor.
    :param observable: True lets others watch that it changed; "value" shares the value too.
    :param sensitive: keep the value out of what operators see.
    """
    return Attribute(default=default, default_factory=default_factory, observable=observable, sensitive=sensitive)
