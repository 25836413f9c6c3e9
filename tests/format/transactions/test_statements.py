"""Statements about savepoints and XA, in every way of writing that SQL allows."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.transactions.control_statements import Statement, StatementKind, parse_statement
from binlog_format.transactions.xa import XaId

KIND = StatementKind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"SAVEPOINT `q1`", Statement(KIND.SAVEPOINT, "q1")),
        (b"savepoint Q1", Statement(KIND.SAVEPOINT, "q1")),
        (b"SAVEPOINT `a``b c`", Statement(KIND.SAVEPOINT, "a`b c")),
        (b'SAVEPOINT "a""b"', Statement(KIND.SAVEPOINT, 'a"b')),
        (b"SAVEPOINT`q1`", Statement(KIND.SAVEPOINT, "q1")),
        (b"/* app */ SAVEPOINT /* x */ q1 ;", Statement(KIND.SAVEPOINT, "q1")),
        (b"-- app\nSAVEPOINT q1", Statement(KIND.SAVEPOINT, "q1")),
        (b"# app\n  SAVEPOINT\t\n`/* q */`", Statement(KIND.SAVEPOINT, "/* q */")),
        ("SAVEPOINT `É`".encode(), Statement(KIND.SAVEPOINT, "é")),
        (b"ROLLBACK TO `q1`", Statement(KIND.ROLLBACK_TO, "q1")),
        (b"rollback to savepoint `q1`", Statement(KIND.ROLLBACK_TO, "q1")),
        (b"ROLLBACK WORK TO q1", Statement(KIND.ROLLBACK_TO, "q1")),
        (b"ROLLBACK /**/ WORK TO SAVEPOINT q1;", Statement(KIND.ROLLBACK_TO, "q1")),
        (b"ROLLBACK TO savepoint", Statement(KIND.ROLLBACK_TO, "savepoint")),
        (b"ROLLBACK", Statement(KIND.ROLLBACK)),
        (b"rollback work", Statement(KIND.ROLLBACK)),
        (b"XA START X'6162',X'',1", Statement(KIND.XA_START, xid=XaId(b"ab", b"", 1))),
        (b"XA END X'6162',X'',1", Statement(KIND.XA_END, xid=XaId(b"ab", b"", 1))),
        (b"XA COMMIT X'00ff27',X'62',7", Statement(KIND.XA_COMMIT, xid=XaId(b"\x00\xff'", b"b", 7))),
        (b"xa commit 'a''b'", Statement(KIND.XA_COMMIT, xid=XaId(b"a'b", b"", 1))),
        (b'XA ROLLBACK 0x6162, "b\\""', Statement(KIND.XA_ROLLBACK, xid=XaId(b"ab", b'b"', 1))),
        (b"XA COMMIT X'61',X'',1 ONE PHASE", Statement(KIND.XA_COMMIT_ONE_PHASE, xid=XaId(b"a", b"", 1))),
        (b"XA ROLLBACK X'61',X'',4294967295", Statement(KIND.XA_ROLLBACK, xid=XaId(b"a", b"", 0xFFFFFFFF))),
    ],
)
def test_statements_are_read(text: bytes, expected: Statement) -> None:
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SAVEPOINTS",
        b"SAVEPOINT",
        b"ROLLBACKS",
        b"RELEASE SAVEPOINT q1",
        b"CALL log('ROLLBACK TO `a`')",
        b"XA",
        b"XA RECOVER",
        b"XA COMMIT",
        b"XAVIER X'61'",
        b"/* ROLLBACK",
        b"/* never closed SAVEPOINT q1",
    ],
)
def test_other_statements_say_nothing(text: bytes) -> None:
    assert parse_statement(text) is None


@given(st.binary(min_size=0, max_size=64), st.binary(max_size=64), st.integers(0, 2**32 - 1))
def test_names_of_xa_transactions_survive_their_text(gtrid: bytes, bqual: bytes, format_id: int) -> None:
    xid = XaId(gtrid, bqual, format_id)
    assert XaId.parse(str(xid)) == xid
    statement = parse_statement(f"XA COMMIT {xid}".encode())
    assert statement is not None
    assert statement.xid == xid


@pytest.mark.parametrize("text", ["", "abc", "X'6'", "X'61',X'',1 more", "X'61"])
def test_texts_that_are_no_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected, for example"):
        XaId.parse(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_looked_at_without_failing(text: bytes) -> None:
    for start in (b"", b"SAVEPOINT ", b"ROLLBACK TO ", b"XA COMMIT ", b"/*"):
        parse_statement(start + text)


@pytest.mark.parametrize(
    "text",
    [
        b"SAVEPOINT a" + b" " * 500_000 + b"x",
        b"ROLLBACK TO " + b" " * 500_000 + b"'",
        b"SAVEPOINT " + b"/*" * 250_000,
        b"XA COMMIT '" + b"\\'" * 250_000,
        b"SAVEPOINT `" + b"``" * 250_000,
    ],
    ids=["blanks after", "blanks before", "comments", "escapes", "quotes"],
)
def test_statements_are_read_in_linear_time(text: bytes) -> None:
    """A square of half a million takes minutes; a log may hold statements of a gigabyte."""
    started = time.process_time()
    assert parse_statement(text) is None
    assert time.process_time() - started < 5
