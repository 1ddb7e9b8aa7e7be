"""What ``self.op`` and ``reference.op`` are for checkers, and what ``self.op`` is inside actor code.

There calling is plain Python, and the other verbs stage what commits with the turn. On a reference the same attribute
is a bound verb of its own (``runtime.references``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from flask_solid_objects.actors.definition import OperationDefinition, Target
from flask_solid_objects.actors.message import Message
from flask_solid_objects.actors.options import SCHEDULE, STAGED_SEND, checked_key, checked_options
from flask_solid_objects.actors.reminders import find_reminder, list_reminders, schedule, unschedule, unschedule_all
from flask_solid_objects.actors.staging import stage_send
from flask_solid_objects.errors import ActorCallCycle
from flask_solid_objects.values import ActorKey, AnySession, MessageStatus, MissedPolicy, Options, Outcome, Reminder

_NO_OPTIONS = Options()
P = ParamSpec("P")
R = TypeVar("R")


class BoundQuery(Generic[P, R]):
    """A query of one actor: call it for the ordered result."""

    def __init__(self, actor: Any, function: Callable[..., R], name: str) -> None:
        self._actor = actor
        self._function = function
        self.__name__ = name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it: in order and committed through a reference, as plain Python on ``self``."""
        return self._function(self._actor, *args, **kwargs)

    def using(
        self, *, timeout: float | timedelta | None = None, idempotency_key: str | None = None, context: object = None
    ) -> BoundQuery[P, R]:
        """The same query with delivery options: ``timeout`` in seconds, ``idempotency_key``, ``context``."""
        raise ActorCallCycle("call with options", f"its own {self.__name__}; call self.{self.__name__}(...) itself")


class BoundOperation(BoundQuery[P, R]):
    """An operation of one actor: call it for the committed result, send it for later, or schedule it."""

    def __init__(self, actor: Any, function: Callable[..., R], name: str, options: Options = _NO_OPTIONS) -> None:
        super().__init__(actor, function, name)
        self._options = options

    @property
    def definition(self) -> OperationDefinition:
        """What is stored and checked when it becomes a message."""
        return self._target.definition.lookup(self.__name__)

    @property
    def actor_key(self) -> ActorKey:
        key: ActorKey = self._actor._solid_key
        return key

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it: in order and committed through a reference, as plain Python on ``self``."""
        if self._options is not _NO_OPTIONS:
            name = self.__name__
            raise ActorCallCycle("call with options", f"its own {name}; call self.{name}(...) without .using")
        return self._function(self._actor, *args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Message[R]:
        """Store the message durably; a worker runs it later, in order. Inside an actor it goes with the turn."""
        target = self._target
        return unsent_message(target.key, stage_send(target, self.definition, args, kwargs, self._options))

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> Reminder:
        """Arm a reminder of the actor itself, or move the one of the same key; it goes with the turn."""
        return schedule(self.definition, args, kwargs, self._options, self._title)

    def unschedule(self, *, key: str | int | None = None) -> None:
        """Cancel the reminder of this key, with the turn; no error when there is none."""
        unschedule(self.definition, checked_key(key), self._title)

    def unschedule_all(self) -> None:
        """Cancel every reminder of this operation, with the turn."""
        unschedule_all(self.definition, self._title)

    def reminder(self, *, key: str | int | None = None) -> Reminder | None:
        """The armed reminder of this key, as this turn would leave it."""
        return find_reminder(self.definition, checked_key(key), self._title)

    def reminders(self) -> list[Reminder]:
        """The armed reminders of this operation, the next one first."""
        return list_reminders(self.definition, self._title)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Operations are not effects; said here, since the mistake is easy."""
        raise AttributeError(f"{self._title} is an operation: .send() or .schedule() it. Effects are emitted.")

    def stage(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Operations are not commit actions."""
        raise AttributeError(f"{self._title} is an operation: .send() or .schedule() it. Commit actions are staged.")

    def using(
        self,
        *,
        timeout: float | timedelta | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        idempotency_key: str | None = None,
        context: object = None,
        session: AnySession | None = None,
        every: float | timedelta | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        missed: MissedPolicy | None = None,
        key: str | int | None = None,
    ) -> BoundOperation[P, R]:
        """The same operation with delivery options.

        ``timeout`` in seconds, ``idempotency_key`` and ``context`` for a call; ``delay`` in seconds or ``at``, and
        ``idempotency_key``, ``context`` and ``session`` for a send; ``at``, ``delay``, ``every`` in seconds or ``cron``
        with ``timezone``, ``missed`` and ``key`` for a reminder.
        """
        if timeout is not None or context is not None:
            name = self.__name__
            raise ActorCallCycle("call with options", f"its own {name}; call self.{name}(...) without .using")
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        options = checked_options(STAGED_SEND | SCHEDULE, self._options, given)
        return BoundOperation(self._actor, self._function, self.__name__, options)

    @property
    def _target(self) -> Target:
        return Target(definition=type(self._actor)._solid_definition, key=self._actor._solid_key)

    @property
    def _title(self) -> str:
        return f"{type(self._actor).__name__}.{self.__name__}"


def unsent_message(key: ActorKey, request_id: str) -> Message[Any]:
    """A message that commits with the running turn: it has a request id, and no number yet."""
    return Message(
        _UNSENT,
        id=None,
        request_id=request_id,
        actor_type=key.actor_type,
        actor_id=key.actor_id,
        sequence=None,
        instance_id=None,
    )


class _Unsent:
    """Reads of a message that is only staged."""

    def read_outcome(self, message: Message[Any], context: object) -> Outcome:
        return Outcome(status=MessageStatus.UNSENT, result=None, error=None, rejection=None, attempts=0)

    def wait_message(self, message: Message[Any], timeout: float, context: object) -> Any:
        raise ActorCallCycle("wait for", f"a message of {message.actor_type} {message.actor_id!r}")


_UNSENT = _Unsent()
