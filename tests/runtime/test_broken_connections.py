"""Connections that the server ends: what a unit returned or raised stays, and no turn is blamed for it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import URL, Engine, create_engine, exc
from sqlalchemy.orm import Session

from flask_solid_objects.errors import ActorDestroyed
from flask_solid_objects.store.dialects import Dialect, Fault, dialect_for
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import MessageStatus
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints

pytestmark = [requires.server, pytest.mark.keeps_connections]
_OWN_NUMBER = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
_KILL = {"postgresql": "SELECT pg_terminate_backend({}, 5000)", "mysql": "KILL {}"}


def kill(engine: Engine, cursor: Any) -> None:
    """End the connection of a cursor from another one, and wait until it is gone."""
    cursor.execute(_OWN_NUMBER[engine.dialect.name])
    number = cursor.fetchone()[0]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(_KILL[engine.dialect.name].format(number))


def test_read_whose_connection_dies_after_its_last_statement(rt: RuntimeUnderTest, engine: Engine) -> None:
    """What was read is returned, although the rollback behind it finds no connection."""

    def read(tx: Transaction) -> str:
        kill(engine, tx._cursor)
        return "read"

    assert rt.database.read(read) == "read"
    assert rt.journal("a").add(entry="one") == 1


def test_unit_that_refuses_on_a_dead_connection(rt: RuntimeUnderTest, engine: Engine) -> None:
    """The error of a unit is not replaced by that of its rollback."""

    def refuse(tx: Transaction) -> None:
        kill(engine, tx._cursor)
        raise ActorDestroyed("Journal", "a")

    with pytest.raises(ActorDestroyed):
        rt.database.transact("test", refuse)


def test_sends_whose_connection_dies_raise_as_sqlalchemy_does(
    rt: RuntimeUnderTest, database_url: URL, engine: Engine
) -> None:
    """The application's commit raises the class that all its other statements raise, and its session can go on."""
    own = create_engine(database_url)
    with Session(own) as session:
        rt.journal("a").add.using(session=session).send(entry="lost")
        kill(engine, session.connection().connection.cursor())
        with pytest.raises(exc.OperationalError) as raised:
            session.commit()
        session.rollback()
        message = rt.journal("a").add.using(session=session).send(entry="kept")
        session.commit()
    own.dispose()
    rt.drain()

    assert raised.value.connection_invalidated
    assert message.status() is MessageStatus.COMPLETED
    assert rt.journal("a").snapshot().entries == ["kept"]


@requires.notifications
def test_commit_that_idled_too_long_is_repeated(
    rt: RuntimeUnderTest, engine: Engine, checkpoints: HeldCheckpoints
) -> None:
    """A transaction that the server ended for idling is repeated; the turn is not run again."""
    rt.journal("a").add(entry="one")
    idled = _error_of_state("25P03")
    checkpoints.fail("commit.committing", idled)

    assert rt.journal("a").add(entry="two") == 2
    assert rt.journal("a").snapshot().entries == ["one", "two"]
    assert checkpoints.count("turn.handled") == 2


@pytest.mark.parametrize("state", ["57P01", "57P05", "25P03", "25P04", "08006"])
def test_limits_of_the_server_end_connections(state: str) -> None:
    """What the server says when it ends a connection is not the fault of a statement."""
    dialect: Dialect = dialect_for(URL.create("postgresql+psycopg"))

    assert dialect.classify(_error_of_state(state)) is Fault.DISCONNECTED


def _error_of_state(state: str) -> Exception:
    ended: type[Exception] = type("Ended", (Exception,), {"sqlstate": state})
    return ended(state)
