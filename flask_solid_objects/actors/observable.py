"""``@observable`` and ``@payload``: named projections of the state. Both are declared and checked here.

An observable reads like a property, also through a reference, as an ordered read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

V = TypeVar("V")
Broadcast: TypeAlias = Literal["invalidation", "value"]


class Observable(Generic[V]):
    """What ``@observable`` leaves on the class; ``broadcast`` says whether its value is shared or only its change."""

    def __init__(self, function: Callable[[Any], V], broadcast: Broadcast) -> None:
        self.function = function
        self.broadcast = broadcast
        self.__name__ = getattr(function, "__name__", "?")
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Observable[V]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> V: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else self.function(instance)

    def __set__(self, instance: object, value: object) -> None:
        raise AttributeError(f"{self.__name__} is computed from the state; change the attributes that it reads.")


@overload
def observable(function: Callable[[Any], V], /) -> Observable[V]: ...


@overload
def observable(*, broadcast: Broadcast = ...) -> Callable[[Callable[[Any], V]], Observable[V]]: ...


def observable(function: Callable[[Any], V] | None = None, /, *, broadcast: Broadcast = "invalidation") -> Any:
    """Name a projection that others may watch.

    :param broadcast: "value" shares the value itself with every watcher; by default only that it changed.
    """
    if function is not None:
        return Observable(function, "invalidation")
    return lambda function: Observable(function, broadcast)


class Payload(Generic[V]):
    """What ``@payload`` leaves on the class: a projection for one viewer."""

    def __init__(self, function: Callable[[Any, Any], V]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "?")
        self.__doc__ = function.__doc__


def payload(function: Callable[[Any, Any], V]) -> Payload[V]:
    """Name a projection that is computed for each subscriber."""
    return Payload(function)
