"""``@operation`` and ``@query``: the methods of an actor that are messages, typed so that checkers see through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from flask_solid_objects.actors.bound import BoundOperation, BoundQuery
from flask_solid_objects.values import OperationKind

P = ParamSpec("P")
R = TypeVar("R")


class Query(Generic[P, R]):
    """What ``@query`` leaves on the class."""

    kind: OperationKind = "query"

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.function: Callable[..., R] = function
        self.__name__ = getattr(function, "__name__", "?")
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Query[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> BoundQuery[P, R]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else BoundQuery[P, R](instance, self.function, self.__name__)


class Operation(Generic[P, R]):
    """What ``@operation`` leaves on the class."""

    kind: OperationKind = "operation"

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.function: Callable[..., R] = function
        self.__name__ = getattr(function, "__name__", "?")
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Operation[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> BoundOperation[P, R]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else BoundOperation[P, R](instance, self.function, self.__name__)


def operation(function: Callable[Concatenate[Any, P], R]) -> Operation[P, R]:
    """Make a method a message handler: durable, in order, at least once; it may change the state."""
    return Operation(function)


def query(function: Callable[Concatenate[Any, P], R]) -> Query[P, R]:
    """Make a method an ordered read: it takes its turn like an operation, and must not change the state."""
    return Query(function)
