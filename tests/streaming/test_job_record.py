"""What a job may say otherwise under its checkpoint, and what it may not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from binlog_connector.following.log_end import start_of_log
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.rules.row_rule import GeneratedColumns
from binlog_connector.rules.row_rules import rules_fingerprint
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import BinlogError, DataLossError, OptionError, StorageError
from binlog_format.position import Position
from binlog_streaming.job_state.checkpoint import (
    StateFolder,
    begin_batch,
    begin_query,
    end_batch,
    read_checkpoint,
    state_of,
)
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record import RECORD_FILE
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.switch import plan_switch
from binlog_streaming.plan.job_state import StateChange, TableSelection
from binlog_streaming.settings import (
    Deletes,
    Job,
    Metrics,
    Mode,
    OnStatement,
    Sink,
    Source,
    Spark,
    TableFormat,
    TableRule,
    Trigger,
    UnknownValues,
)
from tests.corpus import SERVER_CASES
from tests.streaming.status.states import table_progress

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
RULES = (
    TableRule(select=r"shop\.orders", mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{database}/{table}"),
    TableRule(select=r"shop\..*", keys=("id",)),
)


def job(folder: Path, *rules: TableRule, sink: dict[str, Any] | None = None, **source: object) -> Job:
    return Job(
        source=msgspec.convert({"path": str(folder / "log"), **source}, Source),
        sink=Sink(**({"directory": str(folder / "tables")} | (sink or {}))),
        checkpoint=str(folder / "checkpoint"),
        tables=rules or RULES,
    )


def begun(folder: Path, *rules: TableRule, **source: Any) -> None:
    """A job that has written two tables."""
    root = folder / "checkpoint"
    keeper = RecordKeeper(job(folder, *rules, **source))
    keeper.begin()
    (root / "offsets").mkdir()
    (root / "commits").mkdir()
    (root / "metadata").write_text(json.dumps({"id": "q"}))
    offset = json.dumps(SourceOffset(Position(0, 1, 0)).to_json())
    (root / "offsets" / "0").write_text(f'v1\n{{"conf":{{}}}}\n{offset}')
    keeper.record_batch([ORDERS, ITEMS])


def refusal(folder: Path, *rules: TableRule, **said: Any) -> str:
    with pytest.raises(OptionError) as caught:
        RecordKeeper(job(folder, *rules, **said)).begin()
    assert caught.value.subclass == "INVALID_VALUE"
    message = str(caught.value)
    assert str(folder / "checkpoint" / RECORD_FILE) in message  # the way on where it is meant so
    return message


def changed(number: int, **fields: object) -> tuple[TableRule, ...]:
    rules = list(RULES)
    rules[number] = msgspec.structs.replace(rules[number], **fields)
    return tuple(rules)


def test_same_job_and_harmless_changes_pass(tmp_path: Path) -> None:
    begun(tmp_path)
    same = job(tmp_path)
    for harmless in (
        same,
        msgspec.structs.replace(same, name="other", trigger=Trigger(interval="1h"), metrics=Metrics(port=0)),
        msgspec.structs.replace(same, spark=Spark(settings={"spark.x": 1})),
        job(tmp_path, sink={"retention": "1d", "target_file_size": 1 << 21, "storage": {"SECRET": "x"}}),
        job(tmp_path, maxBytesPerTrigger="1m", failOnDataLoss=False, schemaFile="s.sql", zeroDates="error"),
        job(tmp_path, *changed(1, on_truncate=OnStatement.FAIL, on_drop=OnStatement.APPLY)),
        job(tmp_path, *changed(1, unknown_values=UnknownValues.NULL)),
        job(tmp_path, excludeTables=r"shop\.x"),
    ):
        RecordKeeper(harmless).begin()
        assert "SECRET" not in (tmp_path / "checkpoint" / RECORD_FILE).read_text()


def test_dates_do_not_become_texts_in_tables_that_have_them(tmp_path: Path) -> None:
    begun(tmp_path)
    assert "source.zeroDates: this checkpoint was begun" in refusal(tmp_path, zeroDates="text")
    begun(tmp_path / "texts", zeroDates="text")
    assert "source.zeroDates: this checkpoint was begun with 'text'" in refusal(tmp_path / "texts", zeroDates="null")


def test_generated_columns_cannot_go_from_tables_that_have_them(tmp_path: Path) -> None:
    begun(tmp_path)
    RecordKeeper(job(tmp_path, *changed(1, generated=GeneratedColumns.NULL))).begin()
    told = "tables[1].generated: shop.items was begun with 'kept', now it is 'drop'"
    assert told in refusal(tmp_path, *changed(1, generated=GeneratedColumns.DROP))
    decodings = [
        job(tmp_path, *changed(1, drop_columns=("note",), generated=way)).decoding() for way in GeneratedColumns
    ]
    fail, null, drop = (rules_fingerprint(decoding, "shop", "items") for decoding in decodings)
    # As in properties that targets have: only what hides something else may be another one.
    assert fail == null == "3fd3d6d0a3f6be93"
    assert drop not in ("", fail)


def test_rules_may_be_ordered_and_split_anew(tmp_path: Path) -> None:
    begun(tmp_path)
    orders, rest = RULES
    parts = [msgspec.structs.replace(rest, select=select) for select in (r"shop\.items", r"shop\.[a-m].*,shop\..*")]
    RecordKeeper(job(tmp_path, orders, *parts)).begin()
    # A place said in other words is the same place.
    fixed = msgspec.structs.replace(parts[0], target="shop/items")
    RecordKeeper(job(tmp_path, orders, fixed, parts[1])).begin()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"path": "/elsewhere"}, "source.path: this checkpoint was begun with '"),
        ({"startingOffsets": "latest"}, "source.startingOffsets: .* begun with nothing, now it is 'latest'"),
        ({"startingGtid": "0-1-2"}, "source.startingGtid: .*It counts only for a new checkpoint"),
        ({"ignoreDomainIds": [3]}, "source.ignoreDomainIds: .*now it is '3'"),
        ({"timeType": "micros"}, "source.timeType: "),
        ({"sink": {"directory": "/other"}}, "sink.directory: .*would miss the past"),
        ({"sink": {"format": TableFormat.ICEBERG}}, "sink.format: .*'delta', now it is 'iceberg'"),
    ],
)
def test_what_belongs_to_the_checkpoint_stays(said: dict[str, Any], told: str, tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(OptionError, match=f"checkpoint: {told}"):
        RecordKeeper(job(tmp_path, **said)).begin()
    RecordKeeper(job(tmp_path)).begin()


def test_what_rules_hide_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SALT", "one")
    monkeypatch.setenv("SAME_SALT", "one")
    hidden: dict[str, object] = {"drop_columns": ("note?",), "mask": {"Email": "sha256"}, "salt_variable": "SHOP_SALT"}
    hiding = changed(1, mode=Mode.CHANGELOG, keys=(), where="id > 5", **hidden)
    begun(tmp_path, *hiding)

    def other(**fields: object) -> tuple[TableRule, ...]:
        return hiding[0], msgspec.structs.replace(hiding[1], **fields)

    RecordKeeper(job(tmp_path, *other(drop_columns=("Note",), mask={"email?": "sha256"}))).begin()
    RecordKeeper(job(tmp_path, *other(salt_variable="SAME_SALT"))).begin()
    told = "tables[1].mask: shop.items was begun with 'email = sha256', now it is 'email = null'"
    assert told in refusal(tmp_path, *other(mask={"email": "null"}, salt_variable=None))
    assert "tables[1].drop_columns: shop.items was begun with 'note', now it is nothing" in refusal(
        tmp_path, *other(drop_columns=())
    )
    assert "tables[1].where: shop.items was begun with 'id > 5', now it is 'id > 6'" in refusal(
        tmp_path, *other(where="id > 6")
    )
    assert "tables[1].columns: shop.items was begun with nothing, now it is 'id'" in refusal(
        tmp_path, *other(columns=("id",), drop_columns=(), mask={}, salt_variable=None)
    )
    monkeypatch.setenv("SHOP_SALT", "two")
    assert "tables[1].salt_variable: shop.items was begun with 'the salt " in refusal(tmp_path, *hiding)
    assert "one" not in (tmp_path / "checkpoint" / RECORD_FILE).read_text()
    monkeypatch.delenv("SHOP_SALT")
    with pytest.raises(OptionError, match="MISSING"):
        RecordKeeper(job(tmp_path, *hiding))


def test_rules_of_tables_that_were_written_stay(tmp_path: Path) -> None:
    begun(tmp_path)
    new_mode = refusal(tmp_path, *changed(1, mode=Mode.SCD2))
    assert (
        "tables[1].mode: shop.items was begun with 'mirror', now it is 'scd2'. scd2 would begin in the middle"
        in new_mode
    )
    assert "tables[0].target: shop.orders was begun with" in refusal(tmp_path, *changed(0, target="x/{mode}/{table}"))
    assert "tables[1].keys: shop.items was begun with 'id', now it is 'a, b'" in refusal(
        tmp_path, *changed(1, keys=("a", "b"))
    )
    assert "tables[1].deletes: shop.items was begun with 'remove', now it is 'mark'" in refusal(
        tmp_path, *changed(1, deletes=Deletes.MARK)
    )
    # The rule that was for another table takes this one too.
    assert "tables[0].target: shop.orders was begun with" in refusal(tmp_path, RULES[1], RULES[0])


def test_a_mode_and_a_table_given_up_cannot_be_taken_again(tmp_path: Path) -> None:
    begun(tmp_path)
    RecordKeeper(job(tmp_path, *changed(0, mode=Mode.MIRROR))).begin()
    assert "tables[0].mode: shop.orders was begun with 'mirror', now it is 'mirror and changelog'" in refusal(tmp_path)


def test_tables_that_are_selected_later_wait_for_their_snapshot(tmp_path: Path) -> None:
    crm = TableRule(select=r"crm\..*")
    begun(tmp_path, excludeTables=r"shop\.audit")
    keeper = RecordKeeper(job(tmp_path, *RULES, crm))
    keeper.begin()
    assert waiting(keeper, ("shop", "orders"), ("shop", "audit"), ("crm", "people")) == ["shop.audit", "crm.people"]
    # One that was given up, and is selected again, lacks what came in between, whatever was known of it.
    keeper.saw_batch(BatchProgress(0, (), 0.0, 0.0, None, StateChange(complete={TableName(*ITEMS): True})))
    RecordKeeper(job(tmp_path, RULES[0], crm)).begin()
    keeper = RecordKeeper(job(tmp_path, *RULES, crm))
    keeper.begin()
    assert waiting(keeper, ("shop", "orders"), ("shop", "items")) == ["shop.items"]


def waiting(keeper: RecordKeeper, *names: tuple[str, str]) -> list[str]:
    selection = TableSelection(keeper.record.rules, keeper.record.exclude)
    tables = [selection.find(TableName(*name)) for name in names]
    memory = keeper._state_at(1)  # `look` asks the log, too, and there is none
    return [str(table.name) for table in tables if table is not None and memory.waits(table)]


def test_job_that_has_done_nothing_yet_may_say_anything_else(tmp_path: Path) -> None:
    RecordKeeper(job(tmp_path)).begin()
    RecordKeeper(job(tmp_path, TableRule(), path="/other", startingOffsets="latest")).begin()
    begun(tmp_path)
    assert "source.path" in refusal(tmp_path, path="/other")


def test_without_a_record_the_job_file_counts(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "checkpoint" / RECORD_FILE).unlink()
    RecordKeeper(job(tmp_path, TableRule(), path="/other")).begin()
    assert "source.path" in refusal(tmp_path)


def test_record_that_is_none_is_named(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "checkpoint" / RECORD_FILE).write_text('{"path": 1}')
    assert "not the record of a job" in refusal(tmp_path)
    file = tmp_path / "job.toml"
    names = {"source": f'path = "{tmp_path}/log"', "sink": f'directory = "{tmp_path}/tables"'}
    sections = "".join(f"[{name}]\n{setting}\n" for name, setting in names.items())
    file.write_text(f'checkpoint = "{tmp_path}/checkpoint"\n{sections}')
    with pytest.raises(OptionError, match="not the record of a job"):
        plan_switch(str(file), str(tmp_path / "other"))


def test_tables_seen_are_remembered_by_the_next_run(tmp_path: Path) -> None:
    begun(tmp_path)
    keeper = RecordKeeper(job(tmp_path))
    keeper.begin()
    file = tmp_path / "checkpoint" / RECORD_FILE
    before = file.stat().st_ino
    keeper.record_batch([ITEMS])
    assert file.stat().st_ino == before  # nothing new, nothing written
    keeper.record_batch([("shop", "a.b")])
    assert json.loads(file.read_text())["tables"] == [["shop", "a.b"], ["shop", "items"], ["shop", "orders"]]


def test_targets_are_to_be_there_until_their_table_is_gone(tmp_path: Path) -> None:
    begun(tmp_path)
    tables = tuple(
        table_progress(name, mode=mode)
        for name, mode in (("shop.orders", "mirror"), ("shop.orders", "changelog"), ("shop.a.b", "mirror"))
    )
    keeper = RecordKeeper(job(tmp_path))
    keeper.begin()
    keeper.saw_batch(BatchProgress(0, tables, 0.1, 0.0, None))
    both = frozenset({Mode.MIRROR, Mode.CHANGELOG})
    known = {ORDERS: both, ITEMS: frozenset(), ("shop", "a.b"): frozenset({Mode.MIRROR})}
    assert keeper.written == {TableName(*name): modes for name, modes in known.items()}

    keeper.saw_batch(BatchProgress(1, tables[2:], 0.1, 0.0, None, StateChange(frozenset({TableName(*ORDERS)}))))
    again = RecordKeeper(job(tmp_path))
    again.begin()
    assert again.written == {TableName(*name): modes for name, modes in (known | {ORDERS: frozenset()}).items()}


def test_record_that_cannot_be_written_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("no folder")
    with pytest.raises(StorageError, match=r"checkpoint/.*: cannot write it: "):
        RecordKeeper(job(tmp_path)).begin()


def test_a_state_file_that_cannot_be_removed_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "journal").mkdir(parents=True)
    with pytest.raises(BinlogError, match=r"checkpoint/journal: cannot remove it: "):
        state_of(job(tmp_path)).forget("journal")


def test_a_batch_that_was_begun_follows_one_that_has_ended(tmp_path: Path) -> None:
    """Also where a loss of power has taken back the file that states it, as Spark has it."""
    state = state_of(job(tmp_path))
    begin_query(state)
    ends = [SourceOffset(Position(0, page, 0)) for page in (1, 2, 3)]
    assert begin_batch(state, 0, ends[0])
    assert begin_batch(state, 1, ends[1])
    assert (found := read_checkpoint(state))
    assert (found.batch_id, found.offset, found.pending) == (0, ends[0], ends[1])
    end_batch(state, 1)
    assert begin_batch(state, 2, ends[2])
    assert (found := read_checkpoint(state))
    assert (found.batch_id, found.offset, found.pending) == (1, ends[1], ends[2])


def test_a_first_batch_is_begun_again_where_the_log_begins_now(tmp_path: Path) -> None:
    """Else tables whose first rows were purged before they were taken would count as complete."""
    log = Path(shutil.copytree(SERVER_CASES / "mariadb-10.11" / "rotation", tmp_path / "log"))
    begun(tmp_path)
    first = RecordKeeper(job(tmp_path))
    first.begin()
    assert first.state_before(0).from_first is True
    min(path for path in log.iterdir() if path.suffix[1:].isdigit()).unlink()
    again = RecordKeeper(job(tmp_path))
    again.begin()
    assert again.state_before(0).from_first is False


def test_a_first_batch_that_may_have_written_is_not_begun_in_a_later_file(tmp_path: Path) -> None:
    """Else targets would keep what its first attempt made of the files that are gone."""
    log = Path(shutil.copytree(SERVER_CASES / "mariadb-10.11" / "rotation", tmp_path / "log"))
    begun(tmp_path)
    first = RecordKeeper(job(tmp_path))
    first.begin()
    first.state_before(0)
    first.keep_definitions(0, (), None)
    again = RecordKeeper(job(tmp_path))
    again.begin()
    assert again.state_before(0).from_first is True
    min(path for path in log.iterdir() if path.suffix[1:].isdigit()).unlink()
    with pytest.raises(DataLossError, match="FILE_PURGED"):
        again.state_before(0)
    accepting = job(tmp_path, failOnDataLoss=False)
    going_on = RecordKeeper(accepting)
    going_on.begin()
    assert going_on.state_before(0).from_first is False


def test_after_lost_changes_every_table_lacks_some(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Path(shutil.copytree(SERVER_CASES / "mariadb-10.11" / "rotation", tmp_path / "log"))
    begun(tmp_path)
    with WatchedLog(str(log)) as watched:
        begin = json.dumps(start_of_log(watched).to_json())
    (tmp_path / "checkpoint" / "offsets" / "0").write_text(f'v1\n{{"conf":{{}}}}\n{begin}')
    goes_on = RecordKeeper(job(tmp_path, failOnDataLoss=False))
    goes_on.begin()
    change = StateChange(complete={TableName(*ORDERS): True})
    goes_on.saw_batch(BatchProgress(0, (), 0.1, 0.0, None, change))
    assert goes_on.state_before(1).complete == {TableName(*ORDERS): True}
    min(log.glob("mysql-bin.0*")).unlink()
    memory = goes_on.state_before(1)
    assert memory.complete == dict.fromkeys((TableName(*ORDERS), TableName(*ITEMS)), False)
    assert memory.from_first is False
    assert "every table lacks changes from now on" in caplog.text
    assert "mysql-bin.000002" in caplog.text
    # It is known also to a job that stops at the next loss.
    stops = RecordKeeper(job(tmp_path))
    stops.begin()
    assert stops.state_before(2).complete == memory.complete


def test_what_spark_has_written_is_forced_to_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: forced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").write_text("v1")
    state = StateFolder(str(tmp_path), {})
    state.sync("offsets/1")
    state.sync("offsets/2")
    assert forced == [str(tmp_path / "offsets" / "1"), str(tmp_path / "offsets")]
