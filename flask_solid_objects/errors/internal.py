"""Errors inside the runtime; of these, only ActorDestroyed reaches callers."""

from __future__ import annotations

from flask_solid_objects.errors.root import SolidObjectsError


class LostActivation(SolidObjectsError):
    """The lease of a turn was taken over, so nothing that it did may commit."""


class ActorDestroyed(LostActivation):
    """The actor was destroyed, and its messages with it."""

    def __init__(self, actor_type: str, actor_id: str) -> None:
        super().__init__(f"{actor_type} {actor_id!r} was destroyed, and its messages with it.")
        self.actor_type = actor_type
        self.actor_id = actor_id


class DatabaseDeadlineExceeded(SolidObjectsError):
    """A unit of work could not get its locks or its connection before its deadline; nothing was written."""


class CommitUnknown(SolidObjectsError):
    """The connection broke at COMMIT: the transaction may or may not have been committed."""
