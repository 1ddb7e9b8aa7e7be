"""``@operation`` and ``@query``: the methods of an actor that are messages, typed so that checkers see through them.

On an actor, which is what ``self`` is inside actor code, calling is plain Python. On a reference the same attribute
is a bound verb (``runtime.references``); the types here say what both have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import ActorCallCycle, StagingUnavailable
from flask_solid_objects.values import AnySession, OperationKind

P = ParamSpec("P")
R = TypeVar("R")


class BoundQuery(Generic[P, R]):
    """A query of one actor: call it for the ordered result."""

    def __init__(self, actor: Any, function: Callable[..., R]) -> None:
        self._actor = actor
        self._function = function

    @property
    def __name__(self) -> str:
        return self._function.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it: in order and committed through a reference, as plain Python on ``self``."""
        return self._function(self._actor, *args, **kwargs)

    def using(
        self, *, timeout: float | timedelta | None = None, idempotency_key: str | None = None, context: object = None
    ) -> BoundQuery[P, R]:
        """The same query with delivery options: ``timeout`` in seconds, ``idempotency_key``, ``context``."""
        return _Unavailable(self._actor, self.__name__)


class BoundOperation(BoundQuery[P, R]):
    """An operation of one actor: call it for the committed result, or send it for later."""

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Message[R]:
        """Store the message durably; a worker runs it later, in order."""
        raise StagingUnavailable("send", _title(self._actor, self.__name__))

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Arm a reminder of the actor itself."""
        raise StagingUnavailable("schedule", _title(self._actor, self.__name__))

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Operations are not effects; said here, since the mistake is easy."""
        raise StagingUnavailable("emit", _title(self._actor, self.__name__))

    def stage(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Operations are not commit actions."""
        raise StagingUnavailable("stage", _title(self._actor, self.__name__))

    def using(
        self,
        *,
        timeout: float | timedelta | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        idempotency_key: str | None = None,
        context: object = None,
        session: AnySession | None = None,
    ) -> BoundOperation[P, R]:
        """The same operation with delivery options.

        ``timeout`` in seconds and ``idempotency_key`` and ``context`` for a call; ``delay`` in seconds or ``at``, and
        ``idempotency_key``, ``context`` and ``session`` for a send.
        """
        return _Unavailable(self._actor, self.__name__)


class _Unavailable(BoundOperation[P, R]):
    """``self.op.using(...)`` in actor code: there is no verb of it that this version could stage."""

    def __init__(self, actor: Any, name: str) -> None:
        super().__init__(actor, _nothing)
        self._name = name

    @property
    def __name__(self) -> str:
        return self._name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise ActorCallCycle("call with options", f"its own {self._name}; call self.{self._name}(...) without .using")


def _nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("never called: options are refused before")


def _title(actor: Any, name: str) -> str:
    return f"{type(actor).__name__}.{name}"


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
        return self if instance is None else BoundQuery[P, R](instance, self.function)


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
        return self if instance is None else BoundOperation[P, R](instance, self.function)


def operation(function: Callable[Concatenate[Any, P], R]) -> Operation[P, R]:
    """Make a method a message handler: durable, in order, at least once; it may change the state."""
    return Operation(function)


def query(function: Callable[Concatenate[Any, P], R]) -> Query[P, R]:
    """Make a method an ordered read: it takes its turn like an operation, and must not change the state."""
    return Query(function)
