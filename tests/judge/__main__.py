"""The judge: random histories on live servers; is every table equal to the server's, or named with a true reason?

Messages, too: those of each table's topic are right, or the publisher has named why it stopped (`tests.judge.topics`).

    make fuzz-servers SECONDS=600 SERVERS=mariadb,/opt/mysql SEED=7
    make fuzz-servers SECONDS=600 REPLICA=1
    make fuzz-servers SECONDS=600 SERVERS=old

SERVERS names MariaDB of PATH (`mariadb`), folders that deploy/fetch-server.sh has made, and all that `make old-servers`
has fetched (`old`). The same seed gives the same histories on the same servers. What is wrong is made as short as it
can be, and written as a case to `build/judge`; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from binlog_lab.demo.mariadb.installed import MARIADB_OF_PATH, DatabaseServerError, find_server
from binlog_lab.demo.mariadb.old_servers import fetched_old_servers
from tests.judge.coverage import Coverage
from tests.judge.histories.columns import kinds_of
from tests.judge.histories.history import History, Session
from tests.judge.histories.pairs import live_pairs
from tests.judge.replicas import ReplicaStoppedError, ReplicatedServer
from tests.judge.rounds import Choices, Judged, Round, replayed
from tests.judge.servers import LiveServer
from tests.judge.shrinking import shrunk, sign_of, write_case
from tests.judge.topics import TOPIC
from tests.judge.verdicts import judge
from tests.servers import fetched_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_lab.demo.mariadb.installed import Installed

FOLDED_EVERY = 4
"""Of so many parts of the time one is for a server that folds names of tables."""
OF_A_SIGN_MAX = 5
"""So many failures with the same sign are made short; the others are counted."""

OLD = "old"
"""All that `make old-servers` has fetched."""
ROUNDS_TOLD = 10
"""A line says how far the judge is after so many rounds."""


class Judging:
    """A run of the judge.

    Args:
        explain: Named errors with these conditions are made short and shown, too.
        rounds: At most so many for each server; None: as many as there is time for.
    """

    def __init__(
        self,
        seed: str,
        into: Path,
        histories: int,
        explain: str,
        *,
        rounds: int | None = None,
        server_type: type[LiveServer] = LiveServer,
    ) -> None:
        self._seed = seed
        self._rounds = rounds
        self._server_type = server_type
        self._into = into
        self._histories = histories
        self._explain = re.compile(explain)
        self._signs: Counter[str] = Counter()
        self.coverage = Coverage()
        self.bad = 0

    def on(self, installed: Installed, seconds: float, *, folded_names: int) -> None:
        """Judge rounds on a server, for a time; one at least. A server that crashes is started anew."""
        until = time.monotonic() + seconds
        number = 0

        def is_time_left() -> bool:
            return number == 0 or (time.monotonic() < until and number != self._rounds)

        while is_time_left():
            # It is MySQL that takes names in small letters for a fresh data directory alone.
            with (
                self._server_type(installed, folded_names=folded_names) as server,
                tempfile.TemporaryDirectory() as work,
            ):
                print(f"{installed.name}: {server.version}, lower_case_table_names={folded_names}", flush=True)
                try:
                    while is_time_left():
                        number += 1
                        self._round(server, Path(work) / "lake", number - 1, folded_names)
                except pymysql.MySQLError:
                    if not server.has_crashed():
                        raise
                    print(f"{installed.name}: the server has crashed; round {number - 1} is left out", flush=True)

    def _round(self, server: LiveServer, lake: Path, number: int, folded_names: int) -> None:
        vendor = server.installed.vendor
        seed = f"{self._seed}-{vendor}-{folded_names}-{number}"
        try:
            judged = Round(server, seed, lake, folds_names=bool(folded_names), count=self._histories).judged()
        except ReplicaStoppedError as error:
            print(f"{server.installed.name}: round {number} is left out, its replica stopped: {error}", flush=True)
            return
        self.coverage.saw(vendor, judged)
        for failed in judged:
            self._look_at(server, lake, failed)
        if (number + 1) % ROUNDS_TOLD == 0:
            print(f"{server.installed.name}: {number + 1} rounds, {self.coverage.histories} histories", flush=True)

    def pairs_on(self, installed: Installed, seconds: float) -> None:
        """Judge ALTERs of every type into every other, with and without strict mode; as many as there is time for."""
        until = time.monotonic() + seconds
        cases = [(old, is_strict) for old in kinds_of(installed.vendor) for is_strict in (True, False)]
        random.Random(self._seed).shuffle(cases)
        with LiveServer(installed) as server, tempfile.TemporaryDirectory() as folder:
            for number, (old, is_strict) in enumerate(cases):
                if number and time.monotonic() > until:
                    break
                server.forget()
                history = History(1, f"{self._seed}-{installed.vendor}-pairs-{number}")
                session = Session(server, history)
                session.do("SET GLOBAL binlog_row_metadata = FULL")
                live_pairs(session, old, kinds_of(installed.vendor), is_strict=is_strict)
                session.keep_tables()
                session.close()
                judged = Judged(history, judge(Choices().run(server, Path(folder) / "lake"), [history]))
                self.coverage.saw(installed.vendor, [judged])
                print(f"{installed.vendor} {old.declared} {'' if is_strict else 'not '}strict", flush=True)
                self._look_at(server, Path(folder) / "lake", judged)

    def _look_at(self, server: LiveServer, work: Path, failed: Judged) -> None:
        self.bad += len(failed.bad)
        for table, verdict in failed.verdicts.items():
            if table not in failed.bad and not self._explain.fullmatch(verdict.condition or "-"):
                continue
            sign = sign_of(verdict)
            self._signs[sign] += 1
            if self._signs[sign] > OF_A_SIGN_MAX:
                continue
            print(f"\n{failed.history.seed}: {table}: {sign}", flush=True)
            short = shrunk(server, work, failed, sign, table)
            if short is None:
                print(f"  not by itself: {verdict.why[-500:]}", flush=True)
                continue
            texts = [done.text for done in short.history.done]
            again = replayed(server, work, texts, short.choices, topics=table.startswith(TOPIC))
            name = f"{server.installed.vendor.lower()}_{failed.history.seed.replace('/', '_').replace('-', '_')}"
            folder = write_case(self._into, name, server, again, failed.history.seed)
            print((folder / "statements.sql").read_text() + (folder / "note.txt").read_text(), flush=True)
            return


def servers_of(text: str) -> list[str]:
    """What is asked for; else MariaDB of PATH, and what the environment and `make servers` have."""
    if text:
        named = [[name] if name != OLD else fetched_old_servers() for name in text.split(",") if name]
        return [name for names in named for name in names]
    return [MARIADB_OF_PATH, *fetched_servers()]


def main(arguments: Sequence[str]) -> int:
    """Run the judge."""
    parser = argparse.ArgumentParser(prog="tests.judge", description="Random histories on live servers")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--servers", default="")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--histories", type=int, default=20, help="in a round: one log, one job")
    parser.add_argument("--rounds", type=int, help="at most so many: then the same histories on every machine")
    parser.add_argument("--into", type=Path, default=Path("build/judge"), help="folder for cases that are found")
    parser.add_argument("--pairs", action="store_true", help="instead of random histories every type into every other")
    parser.add_argument("--replica", action="store_true", help="judge the log of a replica")
    parser.add_argument(
        "--explain", default="(?!)", help="show the shortest history of named errors with such conditions"
    )
    given = parser.parse_args(arguments)
    found: list[Installed] = []
    for name in servers_of(given.servers):
        try:
            found.append(find_server(name))
        except DatabaseServerError as error:
            print(f"left out: {name}: {error}")
            if os.environ.get("CI") == "true" and name == "mariadb":
                return 2
    judging = Judging(
        given.seed,
        given.into,
        given.histories,
        given.explain,
        rounds=given.rounds,
        server_type=ReplicatedServer if given.replica else LiveServer,
    )
    for installed in found:
        share = given.seconds / len(found)
        if given.pairs:
            judging.pairs_on(installed, share)
            continue
        judging.on(installed, share * (FOLDED_EVERY - 1) / FOLDED_EVERY, folded_names=0)
        judging.on(installed, share / FOLDED_EVERY, folded_names=1)
    print(f"\nseed: {given.seed}", *judging.coverage.lines(), sep="\n")
    print(f"tables and topics that are neither equal nor named: {judging.bad}")
    return 1 if judging.bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
