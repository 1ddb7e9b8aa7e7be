"""Stage a message to an actor: it commits with the turn and is delivered after it, in the order of the sends.

The same way serves ``Audit.ref("x").record.send(...)`` and ``self.op.send(...)`` inside actor code.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from flask_solid_objects.actors.definition import OperationDefinition, Target
from flask_solid_objects.actors.options import STAGED_SEND, require
from flask_solid_objects.errors import QueryMutatedState, StagingUnavailable
from flask_solid_objects.intents import ACTOR_MESSAGE, OutboxEntry, Stage, current_turn
from flask_solid_objects.values import ActorKey, Options


class ActorMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message on its way from one actor to another, as it waits in the outbox.

    ``at`` is a time, ``delay`` counts from the source's commit. ``internal`` marks what the system itself sends, and
    ``about`` is the effect whose status the receiver asks for.
    """

    type: str
    id: str
    operation: str
    arguments: msgspec.Raw
    state_version: int
    max_attempts: int
    idempotency_key: str | None = None
    at: datetime | None = None
    delay: float | None = None
    internal: bool = False
    about: str | None = None


def stage_for(verb: str, title: str) -> Stage:
    """The stage of the running turn.

    :raises QueryMutatedState: it only reads.
    :raises StagingUnavailable: nothing runs here that could stage.
    """
    turn = current_turn.get()
    if turn is None or turn.stage is None:
        if turn is not None and turn.reads:
            raise QueryMutatedState(turn.key.actor_type, turn.operation)
        raise StagingUnavailable(verb, title)
    return turn.stage


def stage_send(
    target: Target, operation: OperationDefinition, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
) -> str:
    """Stage a message; returns the request id under which it will be stored at the receiver.

    :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument; nothing was staged.
    """
    title = f"{target.key.actor_type}.{operation.name}"
    stage = stage_for("send", title)
    require(STAGED_SEND, options, f"{title}.send() inside an actor")
    arguments = operation.encode_arguments(args, kwargs, stage.payload_limit)
    message = ActorMessage(
        type=target.key.actor_type,
        id=target.key.actor_id,
        operation=operation.name,
        arguments=msgspec.Raw(arguments.encode()),
        state_version=target.definition.state_version,
        max_attempts=stage.max_attempts,
        idempotency_key=options.idempotency_key,
        at=options.at,
        delay=options.delay,
    )
    entry = message_entry(str(uuid.uuid4()), message, stage.max_attempts)
    stage.outbox.append(entry)
    return entry.effect_id


def message_entry(effect_id: str, message: ActorMessage, max_attempts: int) -> OutboxEntry:
    """The outbox row of a message to an actor."""
    return OutboxEntry(
        effect_id=effect_id,
        name=ACTOR_MESSAGE,
        target=target_of(ActorKey(actor_type=message.type, actor_id=message.id)),
        arguments=msgspec.json.encode(message).decode(),
        max_attempts=max_attempts,
    )


def target_of(key: ActorKey) -> str:
    """The receiver in one short column: type and id together may have 382 characters, so they are hashed."""
    return hashlib.sha256(f"{key.actor_type}\0{key.actor_id}".encode()).hexdigest()
