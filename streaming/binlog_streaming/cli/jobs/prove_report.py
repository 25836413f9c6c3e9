"""Output of `binlog-stream prove`: its progress, each table, and a summary."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binlog_format.messages import count_text
from binlog_streaming.cli.output import escaped, output_console, say
from binlog_streaming.cli.progress import progress_line
from binlog_streaming.prove.comparison import DifferenceKind, ProofOutcome
from binlog_streaming.prove.side_rows import key_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_streaming.prove.comparison import ProofProgress, ProofResult

_STYLES = {ProofOutcome.EQUAL: "green", ProofOutcome.DIFFERENT: "red", ProofOutcome.NOT_COMPARED: "yellow"}


def print_result(result: ProofResult, *, rows: bool, other: str = "the server") -> None:
    """Print the result of one target. *other*: the side that the target is compared with."""
    console = output_console()
    style = _STYLES.get(result.outcome, "dim")
    console.print(
        f"{escaped(result.table)} ({result.mode}): [{style}]{escaped(_told(result, other))}[/]", soft_wrap=True
    )
    forms = result.forms
    if forms is None:
        return
    for names, why in (
        (forms.hidden, "the rules of the job hide or mask them"),
        (forms.unknown, "there is no common form for their types"),
    ):
        if names:
            console.print(f"  not compared: {escaped(', '.join(names))}: {why}", soft_wrap=True)
    if result.repair:
        console.print(f"  {escaped(result.repair)}", soft_wrap=True)
    if rows:
        for difference in result.differences:
            columns = f": {', '.join(difference.columns)}" if difference.columns else ""
            key = key_text(forms.key_columns, difference.key) if forms.key_columns else "a row of a table without a key"
            console.print(f"  {difference.kind}: {escaped(key)}{escaped(columns)}", soft_wrap=True)


def _told(result: ProofResult, other: str) -> str:
    if result.outcome is ProofOutcome.EQUAL:
        in_sample = " in a sample" if result.is_sample else ""
        return f"equal{in_sample} through {result.gtids}, {count_text(result.rows, 'row')}"
    if result.outcome is not ProofOutcome.DIFFERENT:
        return f"{result.outcome}: {result.reason}"
    counts = ", ".join(f"{result.count(kind):,} {kind}" for kind in DifferenceKind if result.count(kind))
    more = " at least" if result.is_partial else ""
    reasons = "; ".join(filter(None, (f"rows{more}: {counts}" if counts else "", result.reason)))
    rows = f"{other} has {count_text(result.rows, 'row')}, the target {result.held_rows:,}"
    return f"different through {result.gtids}: {rows}; {reasons}"


def print_summary(results: Sequence[ProofResult], *, can_repair: bool = True) -> bool:
    """Print the summary; True if all that can be compared is equal. *can_repair*: `--repair` is possible."""
    counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in ProofOutcome}
    rows = sum(result.rows for result in results if result.outcome is ProofOutcome.EQUAL)
    compared = len(results) - counts[ProofOutcome.EXEMPT]
    parts = [f"{counts[ProofOutcome.EQUAL]:,} of {count_text(compared, 'target')} equal, {count_text(rows, 'row')}"]
    if counts[ProofOutcome.EXEMPT]:
        parts.append(f"{counts[ProofOutcome.EXEMPT]:,} cannot be compared")
    output_console().print("; ".join(parts))
    if any(result.outcome is ProofOutcome.DIFFERENT and not result.repair for result in results):
        repair = ", --repair brings them back" if can_repair else ""
        say(f"--rows names the rows that differ{repair}.", err=True)
    return not (counts[ProofOutcome.DIFFERENT] or counts[ProofOutcome.NOT_COMPARED])


@contextmanager
def showing_progress() -> Iterator[Callable[[ProofProgress], None]]:
    """A function that shows progress: in one line of a terminal, else as a line now and then."""
    with progress_line() as (show, interval):
        shown = time.monotonic()

        def show_progress(progress: ProofProgress) -> None:
            nonlocal shown
            if (now := time.monotonic()) - shown >= interval:
                shown = now
                show(_line(progress))

        yield show_progress


def _line(progress: ProofProgress) -> str:
    target = f"{progress.table} ({progress.mode})"
    if progress.doing == "job":
        return f"{target}: waits for the job, which has come to {progress.job_at} (binlog-stream run JOB.toml)"
    of = f" of about {progress.row_estimate:,}" if progress.row_estimate else ""
    return f"{target}: {progress.rows:,}{of} rows of the {progress.doing}"
