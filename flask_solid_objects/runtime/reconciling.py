"""``solid.instances``: compare the actors of a type with what the application knows; authorised, and page by page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flask_solid_objects.payloads import decode
from flask_solid_objects.runtime.acts import Acts
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.values import ActorEntry

MOST = 1000


class InstanceReads:
    """Reads of actors by type, page by page; pass the ``id`` of the last entry as ``after`` for the next page.

    Every read asks the administration policy (action ``inspect``, resource ``instances``). They only look: what has to
    be mended is sent to the actors.
    """

    def __init__(self, core: Core) -> None:
        self._core, self._acts = core, Acts(core)

    def active(self, actor_type: str, *, after: int = 0, most: int = 100, context: object = None) -> list[ActorEntry]:
        """Actors that are not paused."""
        reads = self._reads(actor_type, most, context)
        return self._core.database.read(lambda tx: reads.active(tx, actor_type, after=after, most=most))

    def without_pending_work(
        self,
        actor_type: str,
        *,
        quiet_for: float | timedelta,
        after: int = 0,
        most: int = 100,
        context: object = None,
    ) -> list[ActorEntry]:
        """Actors that rest: unused for so long, with no message, reminder or effect under way."""
        reads = self._reads(actor_type, most, context)
        seconds = quiet_for.total_seconds() if isinstance(quiet_for, timedelta) else float(quiet_for)
        if seconds < 0:
            raise ValueError(f"quiet_for must not be negative, not {quiet_for!r}.")
        return self._core.database.read(
            lambda tx: reads.without_pending_work(tx, actor_type, quiet_for=seconds, after=after, most=most)
        )

    def orphaned(
        self, actor_type: str, owner: Any, *, after: int = 0, most: int = 100, context: object = None
    ) -> list[ActorEntry]:
        """Actors whose id is not among an application's own rows.

        :param owner: the column that holds the ids, such as ``User.id``; in the same database. Numbers compare by their
            digits.
        """
        reads = self._reads(actor_type, most, context)
        column = owner.__clause_element__() if hasattr(owner, "__clause_element__") else owner
        return self._core.database.read(lambda tx: reads.orphaned(tx, actor_type, column, after=after, most=most))

    def states(self, actor_type: str, actor_ids: Sequence[str], *, context: object = None) -> dict[str, Any]:
        """The stored state of actors by id, as plain JSON; those that were never used are left out."""
        reads = self._reads(actor_type, max(1, len(actor_ids)), context)
        found = self._core.database.read(lambda tx: reads.states(tx, actor_type, list(actor_ids)))
        return {actor_id: decode(text) for actor_id, text in found.items()}

    def _reads(self, actor_type: str, most: int, context: object) -> Any:
        self._acts.require("inspect", "instances", context, resource_id=actor_type)
        if not 1 <= most <= MOST:
            raise ValueError(f"A page has from 1 to {MOST} entries, not {most}.")
        return self._core.store.reconciliation
