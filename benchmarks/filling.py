"""Fill the tables with so many rows that a page which walks one of them shows: made by the server, from numbers.

One actor has 10,000 messages, the others share the rest. One message in fifty waits, one in a hundred is a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, text

_NUMBERS = {
    "postgresql": "(SELECT n FROM generate_series(1, CAST({count} AS bigint)) AS n) AS numbers",
    "mysql": "(SELECT seq AS n FROM seq_1_to_{count}) AS numbers",
    "sqlite": "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n FROM c)",
}
_AGO = {
    "postgresql": "clock_timestamp() - ({seconds}) * interval '1 second'",
    "mysql": "UTC_TIMESTAMP(6) - INTERVAL ({seconds}) SECOND",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', (-({seconds})) || ' seconds')",
}
_JSON = {"postgresql": "CAST('{document}' AS jsonb)", "mysql": "'{document}'", "sqlite": "'{document}'"}
_NAME = {
    "postgresql": "'account-' || CAST({n} AS text)",
    "mysql": "CONCAT('account-', {n})",
    "sqlite": "'account-' || {n}",
}
_UUID = {"postgresql": "gen_random_uuid()", "mysql": "UUID()", "sqlite": "lower(hex(randomblob(18)))"}
_TABLES = ("instances", "messages", "ready_messages", "dead_letters", "effects", "broadcasts", "reminders")

_INSTANCES = """
INSERT INTO {p}instances (id, actor_type, actor_id, state, state_version, state_revision, next_message_sequence,
    activation_generation, has_backlog, parked_count, last_used_at, ready_at, paused_at, created_at, updated_at)
SELECT n, CASE WHEN MOD(n, 50000) = 0 THEN 'Rare' ELSE 'Account' END, {name_of_n}, {state}, 1, 7, {after_last},
    3, {no}, 0, {spread}, CASE WHEN MOD(n, 20) = 0 THEN {now} END, CASE WHEN MOD(n, 1000) = 0 THEN {now} END,
    {now}, {now}
FROM {actors}
"""
_MESSAGES = """
INSERT INTO {p}messages (id, instance_id, actor_type, actor_id, operation, delivery_mode, arguments, sequence,
    attempt_count, max_attempts, request_id, enqueued_at, available_at, started_at, completed_at, last_failed_at,
    created_at, updated_at)
SELECT n, {owner}, 'Account', {name_of_owner}, 'pay', 'async', {arguments}, n, 1, 5, {uuid},
    {spread}, {spread}, {spread},
    CASE WHEN MOD(n, 50) = 0 OR MOD(n, 100) = 1 THEN NULL ELSE {spread} END,
    CASE WHEN MOD(n, 100) = 1 THEN {spread} END, {now}, {now}
FROM {messages}
"""
_READY = """
INSERT INTO {p}ready_messages (message_id, instance_id, sequence, available_at, delayed, blocking, created_at)
SELECT id, instance_id, sequence, available_at, {no}, {no}, created_at FROM {p}messages WHERE MOD(id, 50) = 0
"""
_DEAD = """
INSERT INTO {p}dead_letters (message_id, instance_id, actor_type, actor_id, operation, arguments, attempts,
    exception_class, exception_message, backtrace, first_failed_at, last_failed_at, created_at, updated_at)
SELECT id, instance_id, CASE WHEN MOD(id, 500000) = 1 THEN 'Rare' ELSE 'Account' END, actor_id, operation, arguments, 5,
    'ValueError', 'no', {empty_list}, last_failed_at, last_failed_at, created_at, updated_at
FROM {p}messages WHERE MOD(id, 100) = 1
"""
_EFFECTS = """
INSERT INTO {p}effects (message_id, instance_id, effect_id, name, arguments, status, attempt_count, max_attempts,
    available_at, created_at, updated_at)
SELECT id, instance_id, {uuid}, 'mail', {empty}, '{status}', 1, 5, available_at, created_at, updated_at
FROM {p}messages WHERE MOD(id, {every}) = 3
"""
_BROADCASTS = """
INSERT INTO {p}broadcasts (message_id, instance_id, broadcast_id, observable_name, value, revision, state_version,
    activation_generation, status, attempt_count, max_attempts, available_at, created_at, updated_at)
SELECT id, instance_id, {uuid}, '{status}', {null}, 1, 1, 1, '{status}', 1, 5, available_at, created_at, updated_at
FROM {p}messages WHERE MOD(id, {every}) = 7
"""
_REMINDERS = """
INSERT INTO {p}reminders (instance_id, actor_type, actor_id, name, operation, arguments, next_run_at, created_at,
    updated_at)
SELECT id, actor_type, actor_id, 'pay', 'pay', {empty}, {tomorrow}, created_at, updated_at FROM {p}instances
"""
_AUDIT = """
INSERT INTO {p}administration_events (action, kind, subject_id, occurred_at, created_at, updated_at)
SELECT 'actor.pause', 'actor', {name_of_n}, {spread}, {now}, {now} FROM {some}
"""


@dataclass(frozen=True, slots=True)
class _Words:
    """Fragments of SQL in the server's own language."""

    kind: str

    def ago(self, seconds: str) -> str:
        return _AGO[self.kind].format(seconds=seconds)

    def json(self, document: str) -> str:
        return _JSON[self.kind].format(document=document)

    def numbers(self, count: int) -> str:
        return _NUMBERS[self.kind].format(count=count)

    def name(self, n: str) -> str:
        return _NAME[self.kind].format(n=n)


def fill(engine: Engine, *, messages: int, actors: int) -> None:
    """Fill empty tables; ids are the numbers."""
    words = _Words(engine.dialect.name)
    owner = f"(CASE WHEN n <= 10000 THEN 1 ELSE 1 + MOD(n, {actors}) END)"
    fragments = {
        "p": "solid_objects_",
        "no": "FALSE" if words.kind == "postgresql" else "0",
        "now": words.ago("0"),
        # Backwards over a week, a few thousand each hour.
        "spread": words.ago("MOD(n * 7919, 604800)"),
        "tomorrow": words.ago("-86400"),
        "uuid": _UUID[words.kind],
        "owner": owner,
        "name_of_owner": words.name(owner),
        "name_of_n": words.name("n"),
        "state": words.json('{"cents": 5}'),
        "arguments": words.json('{"cents": 1}'),
        "empty": words.json("{}"),
        "empty_list": words.json("[]"),
        "null": words.json("null"),
        "after_last": str(messages + 1),
        "actors": words.numbers(actors),
        "messages": words.numbers(messages),
        "some": words.numbers(50_000),
    }
    rows = [
        *[(statement, {}) for statement in (_INSTANCES, _MESSAGES, _READY, _DEAD, _REMINDERS, _AUDIT)],
        *[(_EFFECTS, {"status": status, "every": every}) for status, every in _EFFECT_SHARES.items()],
        *[(_BROADCASTS, {"status": status, "every": every}) for status, every in _BROADCAST_SHARES.items()],
    ]
    with engine.begin() as connection:
        for statement, more in rows:
            # A colon begins a parameter for SQLAlchemy.
            connection.execute(text(statement.format(**fragments, **more).replace(":", "\\:")))
    _analyze(engine)


_EFFECT_SHARES = {"completed": 10, "pending": 100, "dead": 200}
_BROADCAST_SHARES = {"delivered": 10, "pending": 100}


def _analyze(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name != "mysql":
            connection.execute(text("VACUUM ANALYZE" if engine.dialect.name == "postgresql" else "ANALYZE"))
            return
        for table in _TABLES:
            connection.execute(text(f"ANALYZE TABLE solid_objects_{table}"))
