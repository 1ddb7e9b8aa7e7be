"""Errors that the operator of an application acts on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flask_solid_objects.errors.root import SolidObjectsError


class InvalidSettings(SolidObjectsError):
    """One or more ``SOLID_OBJECTS_*`` settings are wrong; ``problems`` maps each key to what is wrong."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        lines = "".join(f"\n  {key}: {problem}" for key, problem in sorted(problems.items()))
        super().__init__(f"These settings need mending:{lines}")
        self.problems = dict(problems)


class UnsupportedDatabase(SolidObjectsError):
    """The database is not one that this package can keep its promises on."""


class SchemaMissing(SolidObjectsError):
    """The tables are not in the database."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"{detail}. Make the tables with `flask solid upgrade`, or with the app's own "
            "`flask db migrate` and `flask db upgrade`."
        )


class InvalidSchema(SolidObjectsError):
    """Tables of ours exist, but not in the shape that this version needs."""

    def __init__(self, differences: Sequence[str]) -> None:
        lines = "".join(f"\n  {difference}" for difference in differences)
        super().__init__(
            f"The tables are not in the expected shape:{lines}\n"
            "Restore them from the migration that made them, or move them away and run `flask solid upgrade`."
        )
        self.differences = tuple(differences)


class NotInitialized(SolidObjectsError):
    """An actor was used outside an application context, or its extension was never initialized."""


class UnknownDeadLetter(SolidObjectsError):
    """There is no dead letter with this id."""

    def __init__(self, dead_letter_id: int) -> None:
        super().__init__(f"There is no dead letter {dead_letter_id}. See `flask solid dead-letters list`.")
        self.dead_letter_id = dead_letter_id


class UnknownInstance(SolidObjectsError):
    """There is no actor with this type and id in the database."""

    def __init__(self, actor_type: str, actor_id: str) -> None:
        super().__init__(f"There is no actor {actor_type} {actor_id!r}. See `flask solid actors list`.")
        self.actor_type = actor_type
        self.actor_id = actor_id


class UnknownOutboxRow(SolidObjectsError):
    """There is no effect or broadcast with this id."""

    def __init__(self, kind: str, public_id: str) -> None:
        super().__init__(
            f"There is no {kind} {public_id}: it is named by its {kind}_id. See `flask solid dead-letters list --kind "
            f"{kind}`."
        )
        self.kind = kind
        self.public_id = public_id


class UnknownRedrive(SolidObjectsError):
    """There is no redrive with this id."""

    def __init__(self, redrive_id: str) -> None:
        super().__init__(f"There is no redrive {redrive_id}. See `flask solid redrive list`.")
        self.redrive_id = redrive_id


class ReminderCompleted(SolidObjectsError):
    """A reminder that has rung for the last time can only be cancelled."""

    def __init__(self, reminder_id: int) -> None:
        super().__init__(
            f"Reminder {reminder_id} is completed: it has rung for the last time. Schedule it again instead."
        )
        self.reminder_id = reminder_id


class ActUnresolved(SolidObjectsError):
    """The database went away while an operator's act was committed, so that nobody knows whether it was done."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"The connection broke while {action} was committed, and the database did not answer again in time: "
            "it may or may not have been done. Look at what it was about before you repeat it."
        )
        self.action = action
