"""Messages that died, and the copies of them that were sent again."""

from __future__ import annotations

from sqlalchemy import Engine, text

from flask_solid_objects.store.dead_letters import DeadLetter
from tests.actors import RuntimeUnderTest

LETTERS = "solid_objects_dead_letters"


def die(rt: RuntimeUnderTest, *actors: str, operation: str = "fail") -> list[int]:
    """Let a message of each of these actors die, one after the other; their dead letters, the oldest first."""
    before = {letter.id for letter in letters(rt)}
    for number, actor in enumerate(actors):
        arguments = {"entry": str(number)} if operation == "fail" else {}
        getattr(rt.journal(actor), operation).send(**arguments)
        rt.drain()
    return [letter.id for letter in letters(rt) if letter.id not in before]


def letters(rt: RuntimeUnderTest) -> list[DeadLetter]:
    """All dead letters, the oldest first."""
    return rt.runtime.operators.dead_letters(most=1000)[::-1]


def waiting(rt: RuntimeUnderTest) -> list[int]:
    """Those that were not sent again."""
    return [letter.id for letter in letters(rt) if letter.retried_message_id is None]


def copies(engine: Engine) -> dict[str, list[int]]:
    """By actor, in the order of its mailbox, the dead letter of each message that is a copy of one."""
    statement = (
        "SELECT m.actor_id, d.id FROM solid_objects_messages m"
        f" JOIN {LETTERS} d ON d.message_id = m.caused_by ORDER BY m.sequence"
    )
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        for actor_id, letter_id in connection.execute(text(statement)):
            name = actor_id.decode() if isinstance(actor_id, bytes) else actor_id
            found.setdefault(name, []).append(letter_id)
    return found
