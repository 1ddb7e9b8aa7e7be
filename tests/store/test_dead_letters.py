"""Dead letters: what is kept of a message that ended without a result, how they are listed, and how one is retried."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from flask_solid_objects.errors import MailboxFull
from flask_solid_objects.store.completion import Failure
from flask_solid_objects.store.dead_letters import DeadLetter
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, Enqueued, MessageStatus
from tests.store.acts import KEY, MAILBOX, OTHER, Acts


def letters(
    acts: Acts, *, actor_type: str | None = None, before: int | None = None, most: int = 10
) -> list[DeadLetter]:
    return acts.db.read(lambda tx: acts.store.dead_letters.page(tx, actor_type=actor_type, before=before, most=most))


def bury(acts: Acts, key: ActorKey = KEY, *, error: str | None = None) -> int:
    """Let one message die; the id of its dead letter."""
    claim = acts.run(key, arguments='{"by": 2}', operation="subtract")
    if error is None:
        acts.fail(claim)
    else:
        failure = Failure(error=error, retry_seconds=None)
        acts.db.transact("fail", lambda tx: acts.store.turns.fail(tx, claim, failure))
    return letters(acts)[0].id


def retry(acts: Acts, letter: DeadLetter) -> Enqueued:
    """What an operator's retry does: a copy under a key of its own, linked with the letter."""

    def retry(tx: Transaction) -> Enqueued:
        new = acts.new(
            letter.key,
            operation=letter.operation,
            arguments=letter.arguments,
            idempotency_key=f"dead-letter:{letter.id}",
            caused_by=letter.message_id,
            instance_id=letter.instance_id,
        )
        enqueued = acts.store.admission.admit(tx, new, None)
        acts.store.dead_letters.link(tx, letter.id, enqueued.message_id)
        return enqueued

    return acts.db.transact("retry", retry)


def test_letter_keeps_what_an_operator_needs(acts: Acts) -> None:
    """Actor, operation, arguments, attempts and error are kept as they were, and the times agree."""
    letter_id = bury(acts)
    letter = letters(acts)[0]

    assert letter == acts.db.read(lambda tx: acts.store.dead_letters.find(tx, letter_id))
    assert (
        letter.key,
        letter.operation,
        json.loads(letter.arguments),
        letter.attempts,
    ) == (KEY, "subtract", {"by": 2}, 1)
    assert (
        letter.exception_class,
        letter.exception_message,
        json.loads(letter.backtrace),
        letter.retried_message_id,
    ) == ("ValueError", "no", ["line 1"], None)
    assert letter.first_failed_at == letter.last_failed_at
    record = acts.record(letter.message_id)
    assert (record.status, json.loads(str(record.error))["class"]) == (MessageStatus.DEAD, "ValueError")
    assert record.completed_at is None


def test_letter_knows_an_earlier_failure(acts: Acts) -> None:
    """A message that failed before it died has two different times, and all its attempts."""
    acts.fail(acts.run(), retry=1)
    acts.pass_time(60)
    acts.fail(acts.take())
    letter = letters(acts)[0]

    assert letter.attempts == 2
    assert letter.last_failed_at - letter.first_failed_at >= timedelta(seconds=60)


@pytest.mark.parametrize("error", ['{"class": "' + "é" * 300 + '", "message": "m"}', '{"message": null}', "{}"])
def test_any_error_document_can_be_buried(acts: Acts, error: str) -> None:
    """A class that is too long is cut, and an error without class, message or backtrace does not stop the burial."""
    bury(acts, error=error)
    letter = letters(acts)[0]

    assert len(letter.exception_class) <= 255
    assert json.loads(letter.backtrace) == []


def test_letters_are_listed_newest_first(acts: Acts) -> None:
    """Pages go by id from the newest, optionally of one type, whose spelling counts."""
    account = ActorKey(actor_type="Account", actor_id="a")
    ids = [bury(acts, key) for key in (KEY, account, OTHER, KEY)]

    assert ids[::-1] == [letter.id for letter in letters(acts)]
    assert ids[:1:-1] == [letter.id for letter in letters(acts, most=2)]
    assert ids[1::-1] == [letter.id for letter in letters(acts, before=ids[2])]
    assert [ids[1]] == [letter.id for letter in letters(acts, actor_type="Account")]
    assert letters(acts, actor_type="account") == []


def test_no_letter_of_that_id(acts: Acts) -> None:
    """A letter that is not there is None."""
    assert acts.db.read(lambda tx: acts.store.dead_letters.find(tx, 4711)) is None


def test_retry_is_a_new_message_at_the_end(acts: Acts) -> None:
    """A retry sends a linked copy behind what waits; twice is once."""
    bury(acts)
    acts.send()
    letter = letters(acts)[0]
    first, second = retry(acts, letter), retry(acts, letter)

    assert (first.message_id, True) == (second.message_id, second.existing)
    assert first.sequence == 3
    assert first.message_id == letters(acts)[0].retried_message_id
    record = acts.record(first.message_id)
    assert (letter.operation, json.loads(letter.arguments), 0) == (
        record.operation,
        json.loads(record.arguments),
        record.attempts,
    )
    assert MessageStatus.DEAD is acts.record(letter.message_id).status


def test_retry_into_a_full_mailbox_leaves_the_letter(acts: Acts) -> None:
    """Where the mailbox takes nothing, the letter is not linked with anything."""
    bury(acts)
    for _ in range(MAILBOX):
        acts.send()
    before = acts.everything()

    with pytest.raises(MailboxFull):
        retry(acts, letters(acts)[0])
    assert before == acts.everything()


def test_letters_go_with_their_actor(acts: Acts) -> None:
    """A destroyed actor leaves no letter, and those of others stay."""
    bury(acts, KEY)
    kept = bury(acts, OTHER)
    acts.destroy(KEY)

    assert [kept] == [letter.id for letter in letters(acts)]


def test_letter_keeps_the_spelling_of_the_actor(acts: Acts) -> None:
    """The actor id of a letter is the one that was given, byte for byte."""
    key = replace(KEY, actor_id="Ä a ")
    bury(acts, key)

    assert key == letters(acts)[0].key
