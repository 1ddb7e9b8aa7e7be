"""Run the commit actions of a turn inside the transaction that commits it, in the order of their staging.

It is the only code of an application that runs in a transaction of ours. Whatever it raises rolls the turn back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from flask_solid_objects.errors import CommitActionUnavailable
from flask_solid_objects.intents import CurrentTurn, StagedAction, current_turn
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.commit_session import CommitSession, commit_session, is_session_error
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, CommitContext


class ActionFailed(Exception):
    """A commit action raised ``error``, which is the end of its turn."""

    def __init__(self, action: str, error: BaseException, cause: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.action, self.error, self.cause = action, error, cause


def actions_of(core: Core, claim: Claim, actions: Sequence[StagedAction]) -> Callable[[Transaction], None] | None:
    """What the commit of a turn has to run first; None when it staged no action."""
    return partial(_run_all, core, claim, actions) if actions else None


def _run_all(core: Core, claim: Claim, actions: Sequence[StagedAction], tx: Transaction) -> None:
    """Run them on the transaction's own connection.

    :raises ActionFailed: one of them raised; the unit is rolled back. A lost conflict or connection is raised as it is,
        since the unit may then run again as a whole.
    """
    with commit_session(tx, core.commit_binds()) as session:
        for action in actions:
            try:
                core.run_actor_code(partial(_run, core, claim, action, session, tx))
            except Exception as error:
                conflict = _conflict_of(core, error)
                if conflict is not None:
                    raise conflict  # noqa: B904 - it is in the chain already
                raise ActionFailed(action.name, _explained(core, action, error), error) from error
            core.events.announce_after(
                tx,
                "commit_action.started",
                claim=claim,
                action=action.name,
                activation_generation=claim.lease.generation,
            )
            core.events.announce_after(
                tx,
                "commit_action.completed",
                claim=claim,
                action=action.name,
                activation_generation=claim.lease.generation,
            )


def _run(core: Core, claim: Claim, action: StagedAction, session: CommitSession, tx: Transaction) -> None:
    message = claim.message
    context = CommitContext(
        session=session,
        message_id=message.id,
        request_id=message.request_id,
        actor_type=claim.key.actor_type,
        actor_id=claim.key.actor_id,
        activation_generation=claim.lease.generation,
        now=claim.now,
    )
    current_turn.set(CurrentTurn(key=claim.key, operation=f"commit action {action.name}", connection=tx.connection))
    action.run(context, **action.decode(action.arguments))
    session.check_open()
    core.seams.checkpoints.reach("commit_action.ran", claim=claim, action=action.name)
    session.commit()


def _conflict_of(core: Core, error: Exception) -> BaseException | None:
    """The error for which the unit may run again; after a deadlock one of the savepoint, which is gone, hides it."""
    seen: BaseException | None = error
    while seen is not None and not core.database.is_repeatable(seen):
        # An error that is not the database's is what the action made of it.
        seen = seen.__context__ if is_session_error(error) else None
    return seen


def _explained(core: Core, action: StagedAction, error: Exception) -> Exception:
    """An error that names the remedy, where the cause is that the table is elsewhere."""
    if not core.database.is_missing_table(error):
        return error
    unavailable = CommitActionUnavailable(
        f"The commit action {action.name} wrote to a table that is not in the actors' database: keep it there "
        "(SOLID_OBJECTS_BIND_KEY), or write it in an effect."
    )
    unavailable.__cause__ = error
    return unavailable
