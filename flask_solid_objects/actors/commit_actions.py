"""``@solid.commit_action``: writes to the application's database that commit together with the turn, or not at all.

It is the only code of an application that runs inside a transaction of ours. It may run again after a rollback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec

from flask_solid_objects.actors.signature import Signature
from flask_solid_objects.actors.staging import stage_for
from flask_solid_objects.errors import ActorCallCycle, InvalidEffect
from flask_solid_objects.intents import StagedAction, current_turn
from flask_solid_objects.values import CommitContext

P = ParamSpec("P")


class CommitAction(Generic[P]):
    """What ``@solid.commit_action`` makes of a function; stage it in an operation, or call it plainly in a test."""

    def __init__(self, function: Callable[Concatenate[CommitContext, P], Any], signature: Signature) -> None:
        self.function = function
        self.name = function.__name__
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, context: CommitContext, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function itself; refused in actor code, which must only stage it."""
        if current_turn.get() is not None:
            raise ActorCallCycle("run", f"the commit action {self.name} itself, only {self.name}.stage(...)")
        return self.function(context, *args, **kwargs)

    def stage(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run it in the commit of this turn, in the order of staging, on the same connection.

        :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument; nothing was staged.
        """
        stage = stage_for("stage", self.name)
        arguments = self.signature.encode(args, kwargs, stage.payload_limit, title=self.name)
        stage.actions.append(
            StagedAction(name=self.name, run=self.function, arguments=arguments, decode=self.signature.decode)
        )

    def __repr__(self) -> str:
        return f"<commit action {self.name}>"


def make_commit_action(function: Callable[Concatenate[CommitContext, P], Any]) -> CommitAction[P]:
    """Check a function and make it a commit action.

    :raises InvalidEffect: it cannot be one.
    """
    try:
        return CommitAction(function, Signature(function))
    except ValueError as error:
        title = getattr(function, "__qualname__", repr(function))
        raise InvalidEffect(f"{title} as a commit action: {str(error).replace('self', 'context')}.") from error
