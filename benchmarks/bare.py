"""The limit: the same writes as a call or a drained message, by a loop on the bare driver without any logic.

The tables are the real ones, with all their indexes and foreign keys, so that the difference is the layer's cost.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy

NOW = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000','now')",
    "postgresql": "clock_timestamp()",
    "mysql": "UTC_TIMESTAMP(6)",
}
FALSE = {"sqlite": "0", "postgresql": "false", "mysql": "0"}


@dataclass(slots=True)
class Bare:
    """One driver connection and the statements of a turn in its dialect."""

    connection: Any
    cursor: Any
    name: str
    prefix: str
    process_id: str
    instances: list[int]

    @classmethod
    def connect(cls, url: sqlalchemy.URL, prefix: str, actors: int) -> Bare:
        """Connect, register a process and make the actors."""
        name = url.get_backend_name()
        connection = _CONNECT[name](url)
        bare = cls(connection, connection.cursor(), name, prefix, str(uuid.uuid4()), [])
        bare._prepare(actors)
        return bare

    def close(self) -> None:
        self.cursor.close()
        self.connection.close()

    def call(self, number: int) -> None:
        """Two transactions: admit with claim, then commit; one statement each where the database can."""
        instance_id = self.instances[number % len(self.instances)]
        token, request_id = str(uuid.uuid4()), str(uuid.uuid4())
        if self.name == "postgresql":
            self.cursor.execute(self._admit_cte(), {**self._ids(instance_id, token), "request_id": request_id})
            message_id = self.cursor.fetchone()[0]
            self.connection.commit()
            self.cursor.execute(self._commit_cte(), {**self._ids(instance_id, token), "message_id": message_id})
            self.connection.commit()
            return
        message_id = self._admit(instance_id, token, request_id)
        self._finish(instance_id, token, message_id)

    def _admit(self, instance_id: int, token: str, request_id: str) -> int:
        self._begin()
        values = {**self._ids(instance_id, token), "request_id": request_id}
        self._run(
            "UPDATE {p}instances SET next_message_sequence = next_message_sequence + 1, activation_owner_id = :owner, "
            "activation_token = :token, activation_generation = activation_generation + 1, "
            "activation_expires_at = {now}, last_claimed_at = {now} WHERE id = :id",
            values,
        )
        self._run(
            _MESSAGE + " SELECT id, actor_type, actor_id, 'increment', 'sync', '{{}}', "
            "next_message_sequence - 1, 1, 5, :request_id, {now}, {now}, {now}, {now}, {now} "
            "FROM {p}instances WHERE id = :id",
            values,
        )
        message_id = int(self.cursor.lastrowid)
        self._run(
            "INSERT INTO {p}claimed_messages (message_id, instance_id, process_id, activation_token, "
            "activation_generation, claimed_at) VALUES (:message_id, :id, :owner, :token, 1, {now})",
            values | {"message_id": message_id},
        )
        self.connection.commit()
        return message_id

    def _finish(self, instance_id: int, token: str, message_id: int) -> None:
        self._begin()
        values = {**self._ids(instance_id, token), "message_id": message_id, "state": '{"value":1}'}
        self._run(
            "UPDATE {p}instances SET state = :state, state_revision = state_revision + 1, activation_owner_id = NULL, "
            "activation_token = NULL, activation_expires_at = NULL, last_used_at = {now} "
            "WHERE id = :id AND activation_token = :token",
            values,
        )
        self._run(
            "DELETE FROM {p}claimed_messages WHERE message_id = :message_id AND activation_token = :token", values
        )
        self._run("UPDATE {p}messages SET result = '1', completed_at = {now} WHERE id = :message_id", values)
        self.connection.commit()

    def send(self, number: int) -> None:
        """One transaction: sequence, message, ready row."""
        instance_id = self.instances[number % len(self.instances)]
        self._begin()
        values = {"id": instance_id, "request_id": str(uuid.uuid4())}
        self._run(
            "UPDATE {p}instances SET next_message_sequence = next_message_sequence + 1, ready_at = {now}, "
            "has_backlog = NOT " + FALSE[self.name] + " WHERE id = :id",
            values,
        )
        returning = " RETURNING id" if self.name == "postgresql" else ""
        self._run(
            _MESSAGE + " SELECT id, actor_type, actor_id, 'increment', 'async', '{{}}', "
            "next_message_sequence - 1, 0, 5, :request_id, {now}, {now}, NULL, {now}, {now} "
            "FROM {p}instances WHERE id = :id" + returning,
            values,
        )
        message_id = self.cursor.fetchone()[0] if returning else self.cursor.lastrowid
        self._run(
            "INSERT INTO {p}ready_messages (message_id, instance_id, sequence, available_at, {delayed}, blocking, "
            f"created_at) SELECT :message_id, id, next_message_sequence - 1, {{now}}, {FALSE[self.name]}, "
            f"{FALSE[self.name]}, {{now}} FROM {{p}}instances WHERE id = :id",
            values | {"message_id": message_id},
        )
        self.connection.commit()

    def drain(self, message_id: int, instance_id: int) -> None:
        """One transaction: take a ready message out, write the state, complete it."""
        self._begin()
        values = {"id": instance_id, "message_id": message_id, "state": '{"value":1}'}
        self._run(
            "UPDATE {p}instances SET state = :state, state_revision = state_revision + 1, "
            "activation_generation = activation_generation + 1, last_used_at = {now} WHERE id = :id",
            values,
        )
        self._run("DELETE FROM {p}ready_messages WHERE message_id = :message_id", values)
        self._run(
            "UPDATE {p}messages SET result = '1', attempt_count = attempt_count + 1, completed_at = {now} "
            "WHERE id = :message_id",
            values,
        )
        self.connection.commit()

    def read(self, number: int) -> None:
        """One SELECT of a state."""
        values = {"id": self.instances[number % len(self.instances)]}
        self._run("SELECT state, state_version FROM {p}instances WHERE id = :id", values)
        self.cursor.fetchone()
        self.connection.commit()

    def ready(self) -> list[tuple[int, int]]:
        """The waiting messages, for a drain that needs no search."""
        self._run("SELECT message_id, instance_id FROM {p}ready_messages ORDER BY id", {})
        rows = [(int(row[0]), int(row[1])) for row in self.cursor.fetchall()]
        self.connection.commit()
        return rows

    def _prepare(self, actors: int) -> None:
        self._begin()
        self._run(
            "INSERT INTO {p}processes (id, kind, hostname, pid, started_at, last_heartbeat_at, metadata, "
            "shutdown_state, created_at, updated_at) "
            "VALUES (:owner, 'caller', 'bare', 1, {now}, {now}, '{{}}', 'running', {now}, {now})",
            {"owner": self.process_id},
        )
        for number in range(actors):
            self._run(
                "INSERT INTO {p}instances (actor_type, actor_id, state, created_at, updated_at) "
                "VALUES ('Bare', :actor_id, '{{}}', {now}, {now})",
                {"actor_id": f"{self.process_id}-{number}"},
            )
        self._run("SELECT id FROM {p}instances WHERE actor_type = 'Bare' ORDER BY id", {})
        self.instances = [int(row[0]) for row in self.cursor.fetchall()]
        self.connection.commit()

    def _begin(self) -> None:
        if self.name == "sqlite":
            self.cursor.execute("BEGIN IMMEDIATE")

    def _ids(self, instance_id: int, token: str) -> dict[str, Any]:
        return {"id": instance_id, "owner": self.process_id, "token": token, "state": '{"value":1}'}

    def _run(self, text: str, values: dict[str, Any]) -> None:
        # "delayed" is a reserved word of MySQL.
        delayed = "`delayed`" if self.name == "mysql" else "delayed"
        statement = text.format(p=self.prefix, now=NOW[self.name], delayed=delayed)
        if self.name != "sqlite":
            for key in sorted(values, key=len, reverse=True):
                statement = statement.replace(f":{key}", f"%({key})s")
        self.cursor.execute(statement, values)

    def _admit_cte(self) -> str:
        p = self.prefix
        return (
            f"WITH i AS (UPDATE {p}instances SET next_message_sequence = next_message_sequence + 1, "
            "activation_owner_id = %(owner)s, activation_token = %(token)s, "
            "activation_generation = activation_generation + 1, activation_expires_at = clock_timestamp(), "
            "last_claimed_at = clock_timestamp() WHERE id = %(id)s "
            "RETURNING id, actor_type, actor_id, next_message_sequence - 1 AS sequence, activation_generation AS g), "
            f"m AS (INSERT INTO {p}messages (instance_id, actor_type, actor_id, operation, delivery_mode, arguments, "
            "sequence, attempt_count, max_attempts, request_id, enqueued_at, available_at, started_at, created_at, "
            "updated_at) SELECT id, actor_type, actor_id, 'increment', 'sync', '{}', sequence, 1, 5, %(request_id)s, "
            "clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp() FROM i "
            f"RETURNING id), c AS (INSERT INTO {p}claimed_messages (message_id, instance_id, process_id, "
            "activation_token, activation_generation, claimed_at) SELECT m.id, i.id, %(owner)s, %(token)s, i.g, "
            "clock_timestamp() FROM i, m) SELECT id FROM m"
        )

    def _commit_cte(self) -> str:
        p = self.prefix
        return (
            f"WITH i AS (UPDATE {p}instances SET state = %(state)s, state_revision = state_revision + 1, "
            "activation_owner_id = NULL, activation_token = NULL, activation_expires_at = NULL, "
            "last_used_at = clock_timestamp() WHERE id = %(id)s AND activation_token = %(token)s RETURNING id), "
            f"k AS (DELETE FROM {p}claimed_messages USING i WHERE message_id = %(message_id)s "
            "AND activation_token = %(token)s RETURNING message_id) "
            f"UPDATE {p}messages SET result = '1', completed_at = clock_timestamp() FROM k WHERE id = k.message_id"
        )


_MESSAGE = (
    "INSERT INTO {p}messages (instance_id, actor_type, actor_id, operation, delivery_mode, arguments, sequence, "
    "attempt_count, max_attempts, request_id, enqueued_at, available_at, started_at, created_at, updated_at)"
)


def _sqlite(url: sqlalchemy.URL) -> Any:
    connection = sqlite3.connect(url.database or "", isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _postgresql(url: sqlalchemy.URL) -> Any:
    import psycopg  # noqa: PLC0415 - an optional driver

    return psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False))


def _mysql(url: sqlalchemy.URL) -> Any:
    import pymysql  # noqa: PLC0415 - an optional driver

    return pymysql.connect(
        host=url.host, port=url.port or 3306, user=url.username, password=url.password or "", database=url.database
    )


_CONNECT: dict[str, Callable[[sqlalchemy.URL], Any]] = {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mysql}
