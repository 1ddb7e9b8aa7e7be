"""Errors that the author of an actor acts on."""

from __future__ import annotations

from flask_solid_objects.errors.root import SolidObjectsError


class InvalidActor(SolidObjectsError):
    """An actor class is malformed; the text says where and how to mend it."""


class InvalidActorId(InvalidActor):
    """An actor id is not text of 1 to 191 characters that every database can store."""


class StateMigrationError(SolidObjectsError):
    """Stored state cannot be brought to the version of the class, or does not fit its annotations."""


class ActorCallCycle(SolidObjectsError):
    """Actor code tried to call, wait for or destroy an actor; it would hold one lease while awaiting another."""

    def __init__(self, verb: str, target: str) -> None:
        super().__init__(
            f"Actor code cannot {verb} {target}: a turn must not wait for another actor. "
            "Send a message instead, and let the other actor answer with one."
        )
        self.verb = verb
        self.target = target


class InvalidEffect(SolidObjectsError):
    """A function cannot be an effect or a commit action; the text says where and how to mend it."""


class InvalidComponent(SolidObjectsError):
    """A live view was asked for something that it did not declare, or that cannot be watched."""


class StagingUnavailable(SolidObjectsError):
    """A verb that stages work with a turn was used where no turn could commit it."""

    def __init__(self, verb: str, target: str) -> None:
        super().__init__(
            f".{verb}() of {target} needs a turn to commit with: use it inside an operation or on_activate of an "
            "actor. Nothing was staged."
        )
        self.verb = verb
        self.target = target


class NonRetryableError(SolidObjectsError):
    """Raise it, or a subclass, in an operation to go to the dead letters at once, without another attempt."""


class ApplicationWriteForbidden(NonRetryableError):
    """Actor code tried to write to the application's database outside a commit action."""

    def __init__(self, actor_type: str, actor_id: str, operation: str) -> None:
        super().__init__(
            f"{actor_type} {actor_id!r} {operation} tried to write to the application's database. A turn may run "
            "twice, so its writes must commit with it: keep the data in the actor's state, or write it in the caller."
        )
        self.actor_type = actor_type
        self.actor_id = actor_id
        self.operation = operation


class QueryMutatedState(NonRetryableError):
    """A query, read or observable changed the actor's state."""

    def __init__(self, actor_type: str, operation: str) -> None:
        super().__init__(
            f"{actor_type}.{operation} changed the actor's state, which a query must not. "
            "Declare it with @operation, or work on a copy."
        )
        self.actor_type = actor_type
        self.operation = operation


class InvalidRejectionCode(NonRetryableError):
    """The code of a rejection is not an identifier."""

    def __init__(self, code: object) -> None:
        super().__init__(f"The rejection code {code!r} is not an identifier such as 'sold_out'.")
        self.code = code


class CommitActionUnavailable(NonRetryableError):
    """A commit action cannot write together with the turn, because its tables are in another database."""


class UnknownEffect(NonRetryableError):
    """An effect is stored under a name that no function of this process has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No effect {name!r} is registered here: import the module that has its @solid.effect.")
        self.name = name


class UnknownReminder(SolidObjectsError):
    """There is no such reminder."""

    def __init__(self, subject: object) -> None:
        super().__init__(f"There is no reminder {subject}. See `flask solid reminders list`.")
        self.subject = subject
