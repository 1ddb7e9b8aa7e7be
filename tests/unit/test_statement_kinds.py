"""Statements that may write or lock are told from those that only read, whatever hides them."""

from __future__ import annotations

import pytest

from flask_solid_objects.store.statements import ends_transaction, is_write


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1", False),
        ("  /* why */ select * from a where b = 'insert into c'", False),
        ("(select 1) union (select 2)", False),
        ("WITH a AS (SELECT 1) SELECT * FROM a", False),
        ("EXPLAIN SELECT 1", False),
        ("SELECT updated_at, deleted FROM shares", False),
        ("SELECT * FROM a FOR SHARE", True),
        ("select * from a\nfor\nupdate", True),
        ("PRAGMA table_info(note)", False),
        ("SAVEPOINT a", False),
        ("PRAGMA journal_mode = WAL", True),
        ("WITH a AS (DELETE FROM b RETURNING 1) SELECT * FROM a", True),
        ("SELECT * FROM a FOR UPDATE", True),
        ("select * from a for no key update skip locked", True),
        ("SELECT * FROM a LOCK IN SHARE MODE", True),
        ("SELECT * INTO OUTFILE 'x' FROM a", True),
        ("SELECT nextval('s')", True),
        ("INSERT INTO a VALUES (1)", True),
        ("-- x\nUPDATE a SET b = 1", True),
        ("REPLACE INTO a VALUES (1)", True),
        ("CREATE TABLE a (b int)", True),
        ("TRUNCATE a", True),
        ("CALL p()", True),
        ("COPY a FROM STDIN", True),
        ("LOCK TABLE a", True),
        ("SET GLOBAL x = 1", True),
        # What hides: marks of comments in literals and the reverse, comments that MySQL executes, escapes.
        ("SELECT '--' AS a FROM b FOR UPDATE", True),
        ("SELECT '/*' AS a FROM b FOR UPDATE /* ' */", True),
        ("SELECT 1 -- it's\nFROM b FOR UPDATE -- '", True),
        ("SELECT \"it's\" FROM a FOR UPDATE -- '", True),
        ("SELECT * FROM a /*!FOR UPDATE*/", True),
        ("/*M!100100 DELETE FROM a */", True),
        (r"SELECT '\' FROM a FOR UPDATE -- '", True),
        (r"SELECT 'a\'' FROM a FOR UPDATE -- '", True),
        ("# x\nDELETE FROM a", True),
        # Words between the verb and the table, and none at all.
        ("WITH a AS (UPDATE ONLY b SET c = 1 RETURNING 1) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1) UPDATE b AS x SET c = 1", True),
        ("WITH a AS (SELECT 1) DELETE b FROM b JOIN a", True),
        ("WITH a AS (SELECT 1) INSERT OR REPLACE INTO b SELECT 1", True),
        ("EXPLAIN ANALYZE DELETE FROM a", True),
        ("ANALYZE DELETE FROM a", True),
        ("EXPLAIN (ANALYZE, BUFFERS) CREATE TABLE a AS SELECT 1", True),
        ("EXPLAIN ANALYZE EXECUTE p", True),
        ("EXPLAIN ANALYZE SELECT * FROM a", False),
        ("SELECT * INTO b FROM a", True),
        ("SELECT a INTO @x FROM b", False),
        # More than one statement, blocks, transactions that may write.
        ("SELECT 1; DROP TABLE a", True),
        ("SELECT 1;", False),
        ("BEGIN; DELETE FROM a", True),
        ("BEGIN NOT ATOMIC DELETE FROM a; END", True),
        ("BEGIN", False),
        ("START TRANSACTION READ ONLY", False),
        ("START SLAVE", True),
        ("SET TRANSACTION READ WRITE", True),
        ("SET SESSION TRANSACTION READ WRITE", True),
        ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", False),
        # Locks and counters of other kinds.
        ("SELECT pg_try_advisory_lock(1)", True),
        ("SELECT GET_LOCK('a', 1)", True),
        ("SELECT NEXT VALUE FOR s", True),
        # Pragmas that set or do something.
        ("PRAGMA query_only", False),
        ("PRAGMA query_only(0)", True),
        ("PRAGMA main.query_only = 0", True),
        ('PRAGMA main.table_xinfo("note")', False),
        ('PRAGMA "main".table_info("note")', False),
        ("PRAGMA wal_checkpoint", True),
        ("ATTACH 'x' AS y", True),
        ("VACUUM INTO 'x'", True),
        # What only looks like a write.
        ("SELECT insert('abc', 1, 1, 'x'), replace(a, 'b', 'c') FROM d", False),
        ("SELECT t.update, t.delete FROM t", False),
        ("SELECT 'delete from a; drop table b' FROM c -- insert into", False),
        ('SELECT "insert", `update` FROM a', False),
        ("SELECT next_run_at, intoxication, deleted_at FROM a", False),
    ],
)
def test_statements_are_told_apart(statement: str, expected: bool) -> None:
    """What is not plainly a read counts as a write."""
    assert is_write(statement) is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO a VALUES ('--'); COMMIT", True),
        ("INSERT INTO a VALUES ('; COMMIT')", False),
        (r"INSERT INTO a VALUES ('\'); COMMIT -- '", True),
        ("ROLLBACK TO SAVEPOINT a", False),
        ("/*!COMMIT*/", True),
        ("SET autocommit = 1", True),
        ("CREATE TEMPORARY TABLE a (b int)", False),
    ],
)
def test_ends_of_a_transaction_are_found(statement: str, expected: bool) -> None:
    """What ends a transaction is found wherever it stands, and not in literals."""
    assert ends_transaction(statement) is expected
