"""`python -m bench.peers [names]`: every decoder over the same file, proved equal; `bench/results/peers.json`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.__main__ import RESULTS, keep
from bench.machine import machine_line
from bench.peers.found import Found, PeerError, Run, last_pass, median_run, parse_found, run_process
from bench.peers.programs import HOT_PASSES, PEERS, Peer
from bench.peers.server_log import CHANGES_PER_TRANSACTION, server_log
from bench.registry import Benchmark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers.found import Process
    from bench.peers.server_log import ServerLog

ROUNDS = 5
"""In each of them every decoder has its turn; the medians count."""
PEERS_RESULTS = RESULTS.with_name("peers.json")
_ROOT = Path(__file__).parents[2]
_OURS = (sys.executable, "-m", "bench.peers.ours")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a decoder, the row changes that it decoded, and the medians of its runs."""

    name: str
    about: str
    verifies: bool
    changes: int
    run: Run


def main() -> int:
    """Build, prove, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=main.__doc__)
    parser.add_argument("names", nargs="*", help=f"which peers (default: all): {', '.join(p.name for p in PEERS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {peer.name for peer in PEERS}
    if unknown:
        parser.error(f"no peer is called {', '.join(sorted(unknown))}")
    print(machine_line())
    log = server_log()
    print(f"{log.path.name}: MariaDB {log.server}, {log.size / 1e6:.1f} MB, {log.changes:,} row changes", flush=True)
    peers = [peer for peer in _built(arguments.names) if _is_equal(peer, log)]
    lines = _measured(peers, log, arguments.rounds)
    _print_table(lines)
    _write(lines, log, arguments.rounds)
    return 0


def _built(names: Sequence[str]) -> list[Peer]:
    built = []
    for kind in PEERS:
        if names and kind.name not in names:
            continue
        peer = kind()
        try:
            peer.build()
        except PeerError as error:
            print(f"{peer.name} is left out: {error}", flush=True)
        else:
            built.append(peer)
    return built


def _is_equal(peer: Peer, log: ServerLog) -> bool:
    """Whether a peer finds the rows that this decoder finds; it is left out when it cannot be run."""
    transactions = [] if peer.transactions is None else [str(peer.transactions)]
    command = [*_OURS, str(log.path), "full", "1", *transactions]
    expected = parse_found(run_process(command, directory=_ROOT).output)
    assert expected.changes == (CHANGES_PER_TRANSACTION * peer.transactions if peer.transactions else log.changes)
    try:
        found = peer.prove(log.path)
    except PeerError as error:
        print(f"{peer.name} is left out: {error}", flush=True)
        return False
    if found != expected:
        raise PeerError(f"{peer.name} found {found}, expected {expected}")
    print(f"{peer.name}: the same {found.changes:,} row changes, sums {_sums(found)}", flush=True)
    return True


def _sums(found: Found) -> str:
    return f"{found.int_sum:,} (integers), {found.text_size:,} (bytes of texts), {found.byte_sum:,} (their values)"


def _measured(peers: Sequence[Peer], log: ServerLog, rounds: int) -> list[Line]:
    hot: list[Run] = []
    cold: list[Run] = []
    of_peers: list[list[Run]] = [[] for _ in peers]
    for _ in range(rounds):
        hot.append(last_pass(_ours(log, HOT_PASSES))[1])
        cold.append(_ours(log, 1).run)
        for peer, runs in zip(peers, of_peers, strict=True):
            runs.append(peer.measure(log.path))
    lines = [
        Line("ours", "this decoder, kernels loaded", True, log.changes, median_run(hot)),
        Line("ours_cold", "this decoder, whole process from a cold start", True, log.changes, median_run(cold)),
    ]
    for peer, runs in zip(peers, of_peers, strict=True):
        changes = log.changes if peer.transactions is None else CHANGES_PER_TRANSACTION * peer.transactions
        lines.append(Line(peer.name, peer.about, peer.verifies, changes, median_run(runs)))
    return lines


def _ours(log: ServerLog, passes: int) -> Process:
    return run_process([*_OURS, str(log.path), "quick", str(passes)], directory=_ROOT)


def _ratios(lines: Sequence[Line]) -> dict[str, float]:
    """Processor time for a row change, as a multiple of ours."""
    ours = lines[0].run.cpu_seconds / lines[0].changes
    return {line.name: line.run.cpu_seconds / line.changes / ours for line in lines}


def _print_table(lines: Sequence[Line]) -> None:
    ratios = _ratios(lines)
    print(f"\n{'':64} {'CPU s':>7} {'wall s':>7} {'changes per CPU s':>18} {'CRC':>4} {'ratio':>7}")
    for line in lines:
        run = line.run
        part = "" if line.changes == lines[0].changes else f" ({line.changes:,} changes)"
        print(
            f"{line.about + part:64} {run.cpu_seconds:7.3f} {run.seconds:7.3f} {line.changes / run.cpu_seconds:18,.0f} "
            f"{'yes' if line.verifies else 'no':>4} {ratios[line.name]:7.1f}"
        )


def _write(lines: Sequence[Line], log: ServerLog, rounds: int) -> None:
    ratios = _ratios(lines)
    others = {name: ratio for name, ratio in ratios.items() if not name.startswith("ours")}
    results: dict[str, float] = {f"peers.{name}.cpu_ratio": ratio for name, ratio in others.items()}
    if others:
        results["peers.fastest.cpu_ratio"] = min(others.values())
    command = f"python -m bench.peers --rounds {rounds}"
    content = {
        "machine": machine_line(),
        "commit": _commit(),
        "command": command,
        "file": {"server": log.server, "size": log.size, "changes": log.changes},
        "decoders": [asdict(line) for line in lines],
        "ratios": results,
    }
    PEERS_RESULTS.parent.mkdir(parents=True, exist_ok=True)
    PEERS_RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    for name, value in results.items():
        keep(RESULTS, Benchmark(name, "x", "processor time beside ours", lambda: 0.0), value, command=command)
    print(f"\nwritten to {PEERS_RESULTS}")


def _commit() -> str:
    result = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
