"""Changes that a complete target contradicts stop it by name; of others nothing is compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from binlog_format.errors import TableError
from binlog_streaming.cli.status.status import _table_state
from binlog_streaming.jobs.check import check_job
from binlog_streaming.settings.choices import Begin, Deletes, Evidence, Merge, Mode, OnStatement, TableFormat
from binlog_streaming.status.recorder import StatusRecorder
from binlog_streaming.status.tallies import TableTallies
from binlog_streaming.status.view import StatusFile
from binlog_streaming.tables.evidence_watch import PROVED_PROPERTY
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import job, log, record, rows, stated
from tests.streaming.tables.statements.statement_stories import ORDERS

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.job_state.progress import BatchProgress
    from tests.streaming.tables.shop import ShopLog
    from tests.streaming.tables.statements.statement_stories import Story

pytestmark = pytest.mark.usefixtures("shown_values")

CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"

RULES: dict[str, dict[str, Any]] = {
    "mirror": {},
    "marks": {"deletes": Deletes.MARK},
    "scd2": {"mode": Mode.SCD2},
}
SINKS: dict[str, dict[str, Any]] = {
    "delta": {"merge": Merge.REWRITE},
    "delta vectors": {"merge": Merge.MARK},
    "iceberg": {"format": TableFormat.ICEBERG, "merge": Merge.MARK},
}


def begin(writer: ShopLog) -> None:
    writer.statement(CREATE)
    writer.insert(ORDERS, (1, "a"), (2, "b"), (3, "c"))
    writer.delete(ORDERS, (3, "c"))


WRONG: dict[str, tuple[Story, str]] = {
    "update": (lambda log: log.update(ORDERS, ((7, "x"), (7, "y"))), r"an UPDATE .*the row of key id = 7.* no row"),
    "delete": (lambda log: log.delete(ORDERS, (7, "x")), r"a DELETE .*the row of key id = 7.* no row"),
    "insert": (lambda log: log.insert(ORDERS, (2, "x")), r"an INSERT .*no row of key id = 2.* a row"),
    "deleted": (lambda log: log.update(ORDERS, ((3, "c"), (3, "d"))), r"an UPDATE .*key id = 3.* no row"),
    "key": (
        lambda log: log.update(ORDERS, ((1, "a"), (2, "a"))),
        r"an UPDATE that sets this key .*no row of key id = 2.* a row",
    ),
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", WRONG)
def test_a_change_that_the_target_contradicts_writes_nothing(tmp_path: Path, sink: str, rule: str, name: str) -> None:
    story, message = WRONG[name]
    top = {"sink": {"directory": str(tmp_path / "tables"), **SINKS[sink]}}
    log(tmp_path, begin)
    assert run(job(tmp_path, top=top, **RULES[rule])) == 1
    log(tmp_path, story, first=100)
    for _ in range(2):
        with pytest.raises(TableError, match=rf"CONTRADICTED\] shop\.orders: {message}") as caught:
            run(job(tmp_path, top=top, **RULES[rule]))
    assert "at 0-1-101 (" in str(caught.value)
    assert run(job(tmp_path, top=top, evidence=Evidence.OFF, **RULES[rule])) == 1


IN_ONE_STEP: dict[str, tuple[Story, str]] = {
    "insert": (WRONG["insert"][0], r"an INSERT .* needs no row of key id = 2, .* an INSERT at .* left a row"),
    "deleted": (WRONG["deleted"][0], r"an UPDATE .* needs the row of key id = 3, .* a DELETE at .* left no row"),
    "deleted again": (
        lambda log: log.delete(ORDERS, (3, "c")),
        r"a DELETE .* needs the row of key id = 3, .* a DELETE at .* left no row",
    ),
    "key": (WRONG["key"][0], r"an UPDATE that sets this key .* no row of key id = 2, .* an INSERT at .* left a row"),
    "values": (
        lambda log: log.update(ORDERS, ((1, "another"), (1, "x"))),
        r"an UPDATE .* needs the row of key id = 1, .* an INSERT at .* left another one: name is 'a', not 'another'",
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", IN_ONE_STEP)
def test_a_change_that_the_change_before_it_contradicts_writes_nothing(tmp_path: Path, rule: str, name: str) -> None:
    """What a batch begins with decides nothing: the log lacks a statement between two changes of one step."""
    story, message = IN_ONE_STEP[name]
    log(tmp_path, begin)
    log(tmp_path, story, first=100)
    with pytest.raises(TableError, match=rf"CONTRADICTED\] shop\.orders: {message}") as caught:
        run(job(tmp_path, **RULES[rule]))
    assert "at 0-1-101 (" in str(caught.value)
    assert "sql_log_bin" in str(caught.value)
    assert run(job(tmp_path, evidence=Evidence.OFF, **RULES[rule])) == 1


def comes_and_goes(writer: ShopLog) -> None:
    writer.insert(ORDERS, (5, "x"))
    writer.update(ORDERS, ((5, "x"), (5, "y")))
    writer.delete(ORDERS, (5, "y"))
    writer.insert(ORDERS, (5, "z"))


def made_again(writer: ShopLog) -> None:
    writer.statement("DROP TABLE orders")
    begin(writer)


def emptied(writer: ShopLog) -> None:
    writer.statement("TRUNCATE orders")
    writer.insert(ORDERS, (1, "x"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gone", ["DROP TABLE orders", "RENAME TABLE orders TO others"])
def test_rows_of_a_table_that_is_gone_contradict_that(tmp_path: Path, rule: str, gone: str) -> None:
    """MariaDB logs the RENAME of a temporary table, and does not say so."""
    log(tmp_path, begin)
    log(tmp_path, lambda log: log.statement(gone), first=100)
    assert run(job(tmp_path, **RULES[rule])) == 1
    log(tmp_path, lambda log: log.insert(ORDERS, (5, "x")), first=200)
    with pytest.raises(TableError, match=r"CONTRADICTED\] shop\.orders: .* it has been gone since") as caught:
        run(job(tmp_path, **RULES[rule]))
    assert ("renamed to shop.others" in str(caught.value)) is gone.startswith("RENAME")
    assert run(job(tmp_path, evidence=Evidence.OFF, **RULES[rule])) == 1


RIGHT: dict[str, Story] = {
    "comes again": lambda log: log.insert(ORDERS, (3, "again")),
    "comes, changes, goes, comes": comes_and_goes,
    "keys swapped": lambda log: log.update(ORDERS, ((1, "a"), (9, "a")), ((2, "b"), (1, "b")), ((9, "a"), (2, "a"))),
    "keys shifted": lambda log: log.update(ORDERS, ((2, "b"), (3, "b")), ((1, "a"), (2, "a"))),
    "made again": made_again,
    "emptied": emptied,
    # As MySQL logs what a foreign key and the statement itself delete or change.
    "deleted twice by a statement": lambda log: log.delete(ORDERS, (1, "a"), (1, "a")),
    "deleted as it was": lambda log: log.transaction(
        (ORDERS, "update", [((1, "a"), (1, None))]), (ORDERS, "delete", [(1, "a")])
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_what_a_server_can_do_contradicts_nothing(tmp_path: Path, rule: str, name: str, in_one_batch: bool) -> None:
    log(tmp_path, begin)
    wanted = job(tmp_path, evidence=Evidence.ROWS, **RULES[rule])
    if not in_one_batch:
        run(wanted)
    log(tmp_path, RIGHT[name], first=100)
    assert run(wanted) == 1


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("rule", RULES)
def test_of_rows_all_columns_are_compared(tmp_path: Path, sink: str, rule: str) -> None:
    def stale(writer: ShopLog) -> None:
        writer.update(ORDERS, ((1, "another"), (1, "x")))

    top = {"sink": {"directory": str(tmp_path / "tables"), **SINKS[sink]}}
    log(tmp_path, begin)
    run(job(tmp_path, top=top, **RULES[rule]))
    log(tmp_path, stale, first=100)
    for wanted in (job(tmp_path, top={**top, "evidence": "rows"}, **RULES[rule]),) * 2:
        with pytest.raises(TableError, match=r"UPDATE at 0-1-101 .*key id = 1, and .*: name is 'a', not 'another'"):
            run(wanted)
    assert run(job(tmp_path, evidence=Evidence.OFF, top=top, **RULES[rule])) == 1


KEYS_ALONE = {"evidence_after": 0, "evidence_sample": 0}


@pytest.mark.parametrize(
    ("top", "rule", "is_found"),
    [
        (KEYS_ALONE, {}, False),
        ({"evidence_sample": 0}, {}, True),
        ({"evidence_after": 0}, {}, True),
        (KEYS_ALONE, {"evidence_after": 1}, True),
        (KEYS_ALONE, {"evidence_sample": 1}, True),
        ({}, KEYS_ALONE, False),
        ({}, {"evidence": "off"}, False),
    ],
)
@pytest.mark.parametrize("mode", RULES)
def test_after_a_start_and_of_a_sample_rows_are_compared(
    tmp_path: Path, top: dict[str, Any], rule: dict[str, Any], is_found: bool, mode: str
) -> None:
    log(tmp_path, begin)
    run(job(tmp_path, top=top, **rule, **RULES[mode]))
    log(tmp_path, lambda writer: writer.update(ORDERS, ((1, "another"), (1, "x"))), first=100)
    if not is_found:
        assert run(job(tmp_path, top=top, **rule, **RULES[mode])) == 1
        return
    with pytest.raises(TableError, match="name is 'a', not 'another'"):
        run(job(tmp_path, top=top, **rule, **RULES[mode]))


def proves_one(writer: ShopLog) -> None:
    writer.update(ORDERS, ((2, "b"), (2, "x")))


def shows_another(writer: ShopLog) -> None:
    writer.update(ORDERS, ((1, "another"), (1, "x")))


def altered(writer: ShopLog) -> None:
    writer.statement("ALTER TABLE orders MODIFY name VARCHAR(30)")


@pytest.mark.parametrize("mode", RULES)
@pytest.mark.parametrize(
    ("between", "is_found"), [("nothing", False), ("a statement", True), ("another writer", True), ("a restart", True)]
)
def test_rows_are_compared_again_where_something_else_may_have_changed_them(
    tmp_path: Path, between: str, is_found: bool, mode: str
) -> None:
    stories = [begin, proves_one, *([altered] if between == "a statement" else []), shows_another]
    wanted = job(
        tmp_path,
        source={"maxBytesPerTrigger": "1"},
        top={"evidence_after": 1, "evidence_sample": 0},
        **RULES[mode],
    )
    log(tmp_path, *stories)

    def listen(batch: BatchProgress) -> None:
        if not any(table.updates and table.proved for table in batch.tables):
            return
        if between == "another writer":
            DeltaTable(str(tmp_path / "tables/shop/orders")).update({"name": "name"}, predicate="id = 1")
        if between == "a restart":
            raise RestartedError

    def whole() -> None:
        try:
            run(wanted, listener=listen)
        except RestartedError:
            run(wanted)

    if not is_found:
        whole()
        return
    with pytest.raises(TableError, match="name is 'a', not 'another'"):
        whole()


class RestartedError(Exception):
    """The job ends between two batches."""


def test_one_table_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    aside = {"on_error": "set_aside"}
    log(tmp_path, begin, WRONG["update"][0])
    run(job(tmp_path, top=aside))
    (stopped,) = record(job(tmp_path)).set_aside
    assert "BINLOG_TABLE.CONTRADICTED" in stopped.reason


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ({"begin": Begin.EMPTY}, {}),
        ({"begin": Begin.EMPTY}, {"startingGtid": "0-1-2"}),
        ({}, {"ignoreServerIds": [42]}),
        ({"mode": Mode.CHANGELOG}, {}),
    ],
)
@pytest.mark.parametrize("name", WRONG)
def test_a_target_that_may_lack_rows_has_nothing_to_contradict(
    tmp_path: Path, rule: dict[str, Any], source: dict[str, Any], name: str
) -> None:
    log(tmp_path, begin, WRONG[name][0])
    assert run(job(tmp_path, source=source, **rule)) == 1


def test_rows_that_a_setting_lets_stay_may_come_again(tmp_path: Path) -> None:
    wanted = job(tmp_path, on_truncate=OnStatement.IGNORE)
    log(tmp_path, begin, emptied)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "x"), (2, "b")]
    log(tmp_path, WRONG["delete"][0], first=500)
    with pytest.raises(TableError, match=r"CONTRADICTED"):
        run(wanted)


@pytest.mark.parametrize("rule", RULES)
def test_rows_that_changes_prove_are_counted(tmp_path: Path, rule: str) -> None:
    def story(writer: ShopLog) -> None:
        writer.update(ORDERS, ((1, "a"), (1, "x")), ((2, "b"), (2, "x")))
        writer.insert(ORDERS, (5, "x"))
        writer.delete(ORDERS, (1, "x"))

    log(tmp_path, begin)
    batches: list[BatchProgress] = []
    run(job(tmp_path, **RULES[rule]), listener=batches.append)
    log(tmp_path, story, first=100)
    run(job(tmp_path, **RULES[rule]), listener=batches.append)
    assert [[table.proved for table in batch.tables] for batch in batches] == [[0], [2]]
    tallies = TableTallies(())
    for number, batch in enumerate(batches):
        tallies.take_batch(batch, f"0-1-{number}")
    (table,) = tallies.tables(None, "")
    assert (table.proved, table.proved_through, table.proved_since) == (2, "0-1-1", "0-1-1")
    assert tallies.proved == {"shop.orders": 2}
    assert TableTallies((table,)).proved == {"shop.orders": 2}, "a restart goes on counting"
    assert _table_state(table)[0] == "followed, 2 rows proved by changes, last at 0-1-1"


def test_targets_state_how_many_rows_were_proved_whenever_they_have_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_streaming.tables.evidence_watch.RECORDED_MIN", 2)

    def change(number: int) -> Story:
        return lambda writer: writer.update(ORDERS, ((1, f"{number}"), (1, f"{number + 1}")))

    log(tmp_path, begin)
    log(
        tmp_path,
        lambda writer: writer.update(ORDERS, ((1, "a"), (1, "1"))),
        *(change(number) for number in range(1, 6)),
        first=100,
    )
    found: list[str | None] = []
    run(
        job(tmp_path, source={"maxBytesPerTrigger": "1"}),
        listener=lambda batch: found.append(stated(tmp_path, "orders", PROVED_PROPERTY)) if batch.tables else None,
    )
    assert list(dict.fromkeys(found)) == [None, "2 rows, last at 0-1-101", "4 rows, last at 0-1-301"]


def test_check_shows_what_was_proved(tmp_path: Path) -> None:
    log(tmp_path, begin)
    wanted = job(tmp_path)
    with StatusRecorder(wanted) as recorder:
        run(wanted, listener=recorder.batch)
        StatusFile(wanted).write(recorder.state())
    (table,) = check_job(wanted).tables
    assert table.proof == ""
    log(tmp_path, proves_one, first=100)
    with StatusRecorder(wanted) as recorder:
        run(wanted, listener=recorder.batch)
        StatusFile(wanted).write(recorder.state())
    (table,) = check_job(wanted).tables
    assert table.proof.startswith("1 row proved by changes, last at 0")


NO_KEY = replace(ORDERS, table="notes", primary_key=())


def notes(writer: ShopLog) -> None:
    writer.statement("CREATE TABLE notes (id INT, name VARCHAR(20))")
    writer.insert(NO_KEY, (1, "a"), (1, "a"), (2, None))


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(7, "a")], "id = 7, name = 'a', and there is none that is equal"),
        ([(2, "x")], "id = 2, name = 'x'"),
        ([(1, "a"), (1, "a"), (1, "a")], "id = 1, name = 'a'"),
        ([(7, "a"), (8, "a")], "id = 7, name = 'a', and there is none that is equal; 1 more rows of this step"),
    ],
)
def test_of_a_table_without_a_key_all_rows_that_go_must_be_there(
    tmp_path: Path, sink: str, rows: list[Any], told: str
) -> None:
    wanted = job(tmp_path, top={"sink": {"directory": str(tmp_path / "tables"), **SINKS[sink]}})
    log(tmp_path, notes)
    run(wanted)
    log(tmp_path, lambda writer: writer.delete(NO_KEY, *rows), first=100)
    with pytest.raises(TableError, match=r"CONTRADICTED\] shop\.notes: a DELETE at 0-1-101 ") as caught:
        run(wanted)
    assert told in str(caught.value)


def test_of_a_table_without_a_key_rows_come_and_go(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        writer.delete(NO_KEY, (1, "a"))
        writer.update(NO_KEY, ((1, "a"), (3, "c")), ((2, None), (3, "c")))
        writer.insert(NO_KEY, (4, "d"))
        writer.delete(NO_KEY, (4, "d"), (3, "c"))

    log(tmp_path, notes)
    run(job(tmp_path))
    log(tmp_path, story, first=100)
    run(job(tmp_path))
    assert rows(tmp_path, "notes") == [(3, "c")]
