"""Tables of a job against a live server: equal under a storm; what a foreign hand did to them is found and named."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.prove import repair
from binlog_streaming.prove.comparison import DifferenceKind, ProofOutcome, ProofResult
from binlog_streaming.prove.run import JobProof
from binlog_streaming.prove.side_rows import key_text
from binlog_streaming.settings import Begin, Deletes, Job, Mode, Source, TableRule, load_job
from binlog_streaming.snapshot import locked_point
from tests.program import PROGRAM, run_program
from tests.streaming.prove.proofs import held, job_on, overwrite, place, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of
from tests.streaming.snapshot.storm import TABLES as STORM_TABLES
from tests.streaming.snapshot.storm import storm
from tests.streaming.tables.snapshots.test_live_snapshots import run_cut_off

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.job_state.record import Verified
    from binlog_streaming.prove.comparison import ProofProgress

pytestmark = pytest.mark.server

ROWS = 50
CREATE = "CREATE TABLE shop.t (id INT, name VARCHAR(20), v INT, PRIMARY KEY (id, name))"
INSERT = f"INSERT INTO shop.t SELECT seq, CONCAT('n', seq), seq % 7 FROM shop.seq_1_to_{ROWS}"


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    """A server with a table in a log that begins with it."""
    begin = ["SET GLOBAL binlog_row_metadata = FULL", "DROP DATABASE IF EXISTS binlog_stream"]
    run_sql(shared_server, [*begin, "CREATE OR REPLACE DATABASE shop", "RESET MASTER", CREATE, INSERT])
    return shared_server


def named(result: ProofResult) -> dict[str, tuple[DifferenceKind, tuple[str, ...]]]:
    assert result.forms is not None
    return {key_text(result.forms.key_columns, one.key): (one.kind, one.columns) for one in result.differences}


def test_what_somebody_did_to_a_target_is_found_and_named(server: MariaDbServer, tmp_path: Path) -> None:
    job = job_on(server, tmp_path)
    run(job)
    rows = held(job, "shop.t").sort_by("id")
    assert prove(server, job)["shop.t", "mirror"].outcome is ProofOutcome.EQUAL
    changed = rows.set_column(2, rows.schema.field(2), pa.array([9, *rows.column(2).to_pylist()[1:]], pa.int32()))
    stranger = pa.table({"id": [1000], "name": ["no such"], "v": [1]}).cast(rows.schema)
    swapped = rows.column(2).to_pylist()
    swapped[3], swapped[4] = swapped[4], swapped[3]
    cases = {
        "changed": (changed, {"id = 1, name = 'n1'": (DifferenceKind.DIFFERENT, ("v",))}),
        "removed": (rows.slice(1), {"id = 1, name = 'n1'": (DifferenceKind.MISSING, ())}),
        "added": (pa.concat_tables([rows, stranger]), {"id = 1000, name = 'no such'": (DifferenceKind.EXTRA, ())}),
        "doubled": (pa.concat_tables([rows, rows.slice(5, 1)]), {"id = 6, name = 'n6'": (DifferenceKind.EXTRA, ())}),
        "swapped": (
            rows.set_column(2, rows.schema.field(2), pa.array(swapped, pa.int32())),
            {f"id = {number}, name = 'n{number}'": (DifferenceKind.DIFFERENT, ("v",)) for number in (4, 5)},
        ),
    }
    for name, (content, expected) in cases.items():
        overwrite(job, "shop.t", content)
        found = prove(server, job)["shop.t", "mirror"]
        assert (found.outcome, named(found)) == (ProofOutcome.DIFFERENT, expected), name
    overwrite(job, "shop.t", rows)
    assert prove(server, job)["shop.t", "mirror"].outcome is ProofOutcome.EQUAL


def test_rows_of_a_table_without_a_key_are_counted(server: MariaDbServer, tmp_path: Path) -> None:
    """Two pairs of equal rows, each of which is there once more, would be the same to XOR."""
    run_sql(server, ["CREATE TABLE shop.k (a INT, b INT)", "INSERT INTO shop.k VALUES (1, 1), (1, 1), (NULL, 2)"])
    job = job_on(server, tmp_path)
    run(job)
    assert prove(server, job)["shop.k", "mirror"].outcome is ProofOutcome.EQUAL
    rows = held(job, "shop.k")
    other = pa.table({"a": [2, 2, None], "b": [2, 2, 2]}).cast(rows.schema)
    overwrite(job, "shop.k", other)
    found = prove(server, job)["shop.k", "mirror"]
    assert found.outcome is ProofOutcome.DIFFERENT
    assert sorted(one.kind for one in found.differences) == [DifferenceKind.EXTRA, DifferenceKind.MISSING]


def test_a_target_before_and_after_the_servers_rows_is_compared(server: MariaDbServer, tmp_path: Path) -> None:
    """What the log has between is added or taken away: the job need not stand where the server's rows were read."""
    job = job_on(server, tmp_path)
    run(job)
    run_sql(server, ["UPDATE shop.t SET v = v + 100", "DELETE FROM shop.t WHERE id < 9"])
    run_sql(server, ["INSERT INTO shop.t VALUES (7, 'again', 7)", "UPDATE shop.t SET id = id + 1000 WHERE id = 20"])
    found = prove(server, job)["shop.t", "mirror"]
    assert (found.outcome, found.rows) == (ProofOutcome.EQUAL, ROWS)
    lost = held(job, "shop.t")
    overwrite(job, "shop.t", lost.filter(pc.not_equal(lost.column("id"), 8)))
    found = prove(server, job)["shop.t", "mirror"]
    assert (found.outcome, found.rows) == (ProofOutcome.DIFFERENT, ROWS)
    assert named(found) == {"id = 8, name = 'n8'": (DifferenceKind.MISSING, ())}


def test_a_column_that_the_job_adds_while_rows_are_read_is_not_called_missing(
    server: MariaDbServer, tmp_path: Path
) -> None:
    """The server has it when its rows are read, the target only when its own are."""
    job = job_on(server, tmp_path, TableRule(select="shop[.]t"))
    run(job)
    run_sql(server, ["ALTER TABLE shop.t ADD COLUMN w INT NOT NULL DEFAULT 7", "UPDATE shop.t SET v = 5 WHERE id = 3"])
    caught_up: list[ProofProgress] = []

    def catch_up(progress: ProofProgress) -> None:
        if progress.doing == "server" and not caught_up:
            caught_up.append(progress)
            run(job)

    (found,) = JobProof(job, lambda: session_on(server), catch_up, lambda _: None).prove()
    assert (found.outcome, found.reason, found.rows) == (ProofOutcome.EQUAL, "", ROWS)
    assert found.forms is not None
    assert "w" in found.forms.names
    assert caught_up


@pytest.mark.parametrize(
    "rule",
    [TableRule(mode=(Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG)), TableRule(deletes=Deletes.MARK)],
    ids=["modes", "marked"],
)
def test_modes_hold_the_rows_of_the_table(rule: TableRule, server: MariaDbServer, tmp_path: Path) -> None:
    target = "{mode}/{database}/{table}"
    job = job_on(server, tmp_path, TableRule(mode=rule.mode, deletes=rule.deletes, target=target))
    run(job)
    run_sql(server, ["UPDATE shop.t SET v = 3 WHERE id = 3", "DELETE FROM shop.t WHERE id = 4"])
    run(job)
    found = {mode: one.outcome for (_, mode), one in prove(server, job).items()}
    expected = {"mirror": ProofOutcome.EQUAL, "scd2": ProofOutcome.EQUAL, "changelog": ProofOutcome.EXEMPT}
    assert found == {str(mode): expected[mode] for mode in rule.modes}


def test_columns_that_rules_hide_are_named_and_their_values_are_not(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, ["CREATE TABLE shop.p (id INT PRIMARY KEY, a INT, secret VARCHAR(9), gone INT)"])
    run_sql(server, ["INSERT INTO shop.p VALUES (1, 1, 'hush', 1), (2, 2, 'hush', 2)"])
    job = job_on(server, tmp_path, TableRule(select="shop[.]p", mask={"secret": "null"}, drop_columns=("gone",)))
    run(job)
    found = prove(server, job)["shop.p", "mirror"]
    assert found.outcome is ProofOutcome.EQUAL
    assert found.forms is not None
    assert ([form.name for form in found.forms.columns], found.forms.hidden) == (["id", "a"], ("secret", "gone"))
    overwrite(job, "shop.p", held(job, "shop.p").slice(1))
    assert prove(server, job)["shop.p", "mirror"].outcome is ProofOutcome.DIFFERENT


def test_a_proof_stands_in_the_record_and_in_the_target(server: MariaDbServer, tmp_path: Path) -> None:
    job, other = job_on(server, tmp_path / "one"), job_on(server, tmp_path / "other")
    for one in (job, other):
        run(one)
    found = prove(server, job)["shop.t", "mirror"]
    for one in (job, other):
        run(one)
    (noted,) = verified(job)
    assert (noted.database, noted.table, noted.mode) == ("shop", "t", "mirror")
    assert (noted.gtids, noted.rows) == (found.gtids, ROWS)
    assert noted.commit_time > 1_600_000_000
    assert verified(other) == (), "it is no proof of another job's table"
    properties = DeltaTable(place(job, "shop.t")).metadata().configuration
    assert properties["binlog-stream.verifiedThrough"] == f"{found.gtids}, {ROWS} rows"
    assert "binlog-stream.verifiedThrough" not in DeltaTable(place(other, "shop.t")).metadata().configuration


def verified(job: Job) -> tuple[Verified, ...]:
    keeper = RecordKeeper(job)
    keeper.changes()
    return keeper.record.verified


def test_a_table_that_is_not_complete_is_not_called_equal(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, ["UPDATE shop.t SET v = 1"])
    job = job_on(server, tmp_path, TableRule(begin=Begin.EMPTY))
    late = Source(path=job.source.path, starting_gtid="0-1-2")
    job = Job(source=late, sink=job.sink, checkpoint=job.checkpoint, tables=job.tables)
    run(job)
    assert prove(server, job)["shop.t", "mirror"].outcome is ProofOutcome.NOT_COMPARED


def test_the_command_says_what_it_found(server: MariaDbServer, tmp_path: Path) -> None:
    path = job_file(tmp_path, server.binlog_directory)
    environment = {"BINLOG_STREAM_PASSWORD": server.password}
    job = job_on(server, tmp_path, TableRule(select=r"shop\..*"))
    run(job)
    command = ("prove", str(path), "--server", url_of(server), "--rows")
    done = run_program(*command, environment=environment)
    assert (done.returncode, f"equal through 0-1-2, {ROWS} rows" in done.stdout) == (0, True), done
    overwrite(job, "shop.t", held(job, "shop.t").sort_by("id").slice(1))
    done = run_program(*command, environment=environment)
    assert done.returncode == 1
    assert "missing: id = 1, name = 'n1'" in done.stdout
    assert f"the server has {ROWS} rows, the target {ROWS - 1}" in done.stdout


@pytest.mark.parametrize("is_told", [True, False], ids=["place_told", "under_a_lock"])
def test_a_storm_of_writers_disturbs_no_proof(
    is_told: bool, server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the server does not tell at which place of the log a snapshot stands."""
    if not is_told:
        monkeypatch.setattr(locked_point, "_begin_at_place", lambda _: None)
    run_sql(server, STORM_TABLES[1:])
    target = "{mode}/{database}/{table}"
    job = job_on(
        server,
        tmp_path,
        TableRule(select="shop[.]items", mode=(Mode.MIRROR, Mode.SCD2), target=target),
        TableRule(target=target),
    )
    run(job)
    with storm(server) as counts:
        for _ in range(3):
            before = sum(counts)
            found = prove(server, job, r"shop\.(items|notes)")
            assert {key: (one.outcome, one.reason) for key, one in found.items()} == {
                ("shop.items", "mirror"): (ProofOutcome.EQUAL, ""),
                ("shop.items", "scd2"): (ProofOutcome.EQUAL, ""),
                ("shop.notes", "mirror"): (ProofOutcome.EQUAL, ""),
            }
            run(job)
            assert sum(counts) > before, "nobody wrote"


@pytest.mark.parametrize("deletes", list(Deletes), ids=str)
def test_what_differs_is_brought_back(
    deletes: Deletes, server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all modes and several groups, while others have rows locked; also a key that the server takes for another."""
    monkeypatch.setattr(repair, "_KEYS_IN_GROUP", 4)
    target = "{mode}/{database}/{table}"
    modes = (Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG) if deletes is Deletes.REMOVE else Mode.MIRROR
    run_sql(server, ["INSERT INTO shop.t VALUES (70, 'ÄÖ', NULL)", "INSERT INTO shop.t VALUES (71, 'abc', 1)"])
    job = job_on(server, tmp_path, TableRule(mode=modes, deletes=deletes, target=target))
    run(job)
    kinds = ["mirror"] if deletes is Deletes.MARK else ["mirror", "scd2"]
    for mode in kinds:
        rows = held(job, f"{mode}.shop.t").sort_by("id")
        stranger, renamed = rows.slice(0, 1), rows.slice(rows.num_rows - 1, 1)
        stranger = stranger.set_column(0, rows.schema.field(0), pa.array([1000], pa.int32()))
        renamed = renamed.set_column(1, rows.schema.field(1), pa.array(["ABC"]))
        changed = rows.slice(2, 1).set_column(2, rows.schema.field(2), pa.array([77], pa.int32()))
        parts = [rows.slice(1, 1), changed, rows.slice(3, rows.num_rows - 4), renamed, stranger, rows.slice(9, 1)]
        overwrite(job, f"{mode}.shop.t", pa.concat_tables(parts))
    logged = held(job, "changelog.shop.t").num_rows if len(kinds) > 1 else 0
    with locked_until_somebody_waits(server, "UPDATE shop.t SET v = 5 WHERE id = 3"):
        found = prove(server, job, repairs=True)
    expected = [
        DifferenceKind.MISSING,
        DifferenceKind.DIFFERENT,
        DifferenceKind.EXTRA,
        DifferenceKind.MISSING,
        DifferenceKind.EXTRA,
        DifferenceKind.EXTRA,
    ]
    for mode in kinds:
        assert sorted(one.kind for one in found["shop.t", mode].differences) == sorted(expected)
        assert found["shop.t", mode].repair.startswith("repair: 6 keys, ")
    run(job)
    again = prove(server, job)
    assert {again["shop.t", mode].outcome for mode in kinds} == {ProofOutcome.EQUAL}, named(again["shop.t", kinds[-1]])
    if len(kinds) > 1:
        assert held(job, "changelog.shop.t").num_rows == logged, "a repair is no change of the table"
    assert own_tables(server) == ["snapshot_marks"]


def test_what_a_killed_repair_left_goes_when_nobody_repairs(
    server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "TURN_SECONDS", 0)
    job = job_on(server, tmp_path)
    run(job)
    prove(server, job)
    run_sql(server, ["CREATE TABLE binlog_stream.s_r0123456789abcd AS SELECT * FROM shop.t"])
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT GET_LOCK('{repair._TURN}', 0)")
        prove(server, job, repairs=True)
        assert len(own_tables(server)) == 2
    prove(server, job)
    assert len(own_tables(server)) == 2
    prove(server, job, repairs=True)
    assert own_tables(server) == ["snapshot_marks"]


def own_tables(server: MariaDbServer) -> list[str]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'binlog_stream'")
        return [name for (name,) in cursor.fetchall()]


@contextlib.contextmanager
def locked_until_somebody_waits(server: MariaDbServer, statement: str) -> Iterator[None]:
    """A transaction has done *statement*, and is rolled back as soon as another one waits for its locks."""
    over = threading.Event()

    def wait() -> None:
        with server.connect() as watching, watching.cursor() as cursor:
            while not over.wait(0.2):  # the server does not look again within 0.1 s
                cursor.execute("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")
                if cursor.fetchone() != (0,):
                    return

    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(statement)

        def end() -> None:
            wait()
            connection.rollback()

        thread = threading.Thread(target=end)
        thread.start()
        try:
            yield
            assert not thread.is_alive() or over.is_set(), "nobody waited"
        finally:
            over.set()
            thread.join()


def test_a_repair_and_its_job_may_be_killed_anywhere(server: MariaDbServer, tmp_path: Path) -> None:
    path = job_file(
        tmp_path, server.binlog_directory, "mode = ['mirror', 'scd2']\ntarget = '{mode}/{database}/{table}'"
    )
    job = load_job(path)
    run(job)
    for mode in ("mirror", "scd2"):
        rows = held(job, f"{mode}.shop.t").sort_by("id")
        overwrite(job, f"{mode}.shop.t", rows.slice(20))
    command = [PROGRAM, "prove", str(path), "--server", url_of(server), "--repair"]
    environment = {"BINLOG_STREAM_PASSWORD": server.password}
    killed = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while killed.poll() is None and len(own_tables(server)) < 2:  # a shadow
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    chance = random.Random(3)
    run_cut_off(job, chance)
    run(job)
    done = run_program(*command[1:], environment=environment)
    if done.returncode:  # else the rows of the killed one were in the log before
        assert "20 rows are in the log" in done.stdout, done
        for _ in range(6):
            run_cut_off(job, chance)
        run(job)
        done = run_program(*command[1:], environment=environment)
    assert (done.returncode, done.stdout.count(f", {ROWS} rows")) == (0, 2), done
    for _ in range(3):
        run_cut_off(job, chance)
    run(job)
    assert {one.mode: one.rows for one in verified(job)} == {"mirror": ROWS, "scd2": ROWS}
    assert own_tables(server) == ["snapshot_marks"]
