"""What histories have covered, and what became of it: `Coverage`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_streaming.tables.statements.rewritten_columns import NULL_IS_OPEN
from tests.judge.histories.columns import BOTH, TYPES
from tests.judge.topics import TOPIC
from tests.judge.verdicts import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.judge.rounds import Judged

ARROW = " -> "
NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "decimal", "float", "double", "year")
TIMES = ("date", "time", "datetime", "timestamp")
NOT_COMPUTABLE = (
    # The text of a floating number is the server's own, and a document is written anew.
    (
        ("float", "double"),
        ("char", "varchar", "text", "tinytext", "longtext", "binary", "varbinary", "blob", "tinyblob"),
    ),
    # An address is no number, no time and no label; what a server makes of it then is nothing that anybody wants.
    (("uuid", "inet4", "inet6"), (*NUMBERS, *TIMES, "enum", "set")),
    (("json",), ("",)),
    (("",), ("json",)),
    (("point", "geometry"), ("",)),
    (("",), ("point", "geometry")),
)
SHOWN = 25
_ALTERED = re.compile(r"ALTER TABLE (\w+) ")


@dataclass
class Coverage:
    """Counts.

    Attributes:
        statements: By kind: done, and refused by the server.
        topics: Outcomes of their topics.
        done: ALTERs that change a type, by pair, of tables that are equal.
        named: Those that a table was set aside at.
        open_nulls: Those of them that a null alone stands in the way of, not counted with `named`: a target has null
            for NULL and for 0000-00-00, so that what the server makes of it is not computable from the target.
        samples: By condition one error, and the statement that it is about.
    """

    histories: int = 0
    statements: Counter[tuple[str, bool]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    conditions: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    open_nulls: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    def saw(self, vendor: str, judged: Iterable[Judged]) -> None:
        """Count a round."""
        for one in judged:
            self.histories += 1
            for done in one.history.done:
                kind = "MODIFY" if ARROW in done.label else done.label or "settings and others"
                self.statements[kind, not done.error] += 1
            for name, verdict in one.verdicts.items():
                outcomes = self.topics if name.startswith(TOPIC) else self.outcomes
                outcomes[str(verdict.kind)] += 1
                if verdict.condition:
                    self.conditions[verdict.condition] += 1
                    self.samples.setdefault(verdict.condition, f"{verdict.why[:300]} | {verdict.statement}")
                if ARROW in verdict.label:
                    counts = self.open_nulls if NULL_IS_OPEN in verdict.why else self.named
                    counts[f"{vendor}: {pair_of(verdict.label)}"] += 1
            self.done.update(f"{vendor}: {pair_of(label)}" for label in _labels_done(one))

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"histories: {self.histories}"
        yield f"tables: {_counts(self.outcomes)}"
        yield f"topics: {_counts(self.topics)}"
        yield f"named: {_counts(self.conditions)}"
        yield from (f"  {sample}" for sample in self.samples.values())
        kinds = sorted({kind for kind, _ in self.statements})
        told = [f"{kind} {self.statements[kind, True]} (refused {self.statements[kind, False]})" for kind in kinds]
        yield f"statements: {', '.join(told)}"
        pairs, possible = len({*self.done, *self.named, *self.open_nulls}), len(TYPES) ** 2 * len(BOTH)
        yield f"pairs of an old and a new type: {pairs} (of {possible} declared ones)"
        computable = Counter({pair: count for pair, count in self.named.items() if is_computable(pair)})
        done = sum(count for pair, count in self.done.items() if is_computable(pair))
        share = 100 * done / max(done + computable.total(), 1)
        yield f"ALTERs whose effect is computable: {done} done, {computable.total()} named ({share:.1f} % done)"
        yield f"  and {self.open_nulls.total()} named where a null may be 0000-00-00"
        for pair, count in computable.most_common(SHOWN):
            yield f"  named {count} times: {pair}"


def _labels_done(judged: Judged) -> Iterator[str]:
    database = judged.history.database
    equal = {name.casefold() for name, verdict in judged.verdicts.items() if verdict.kind is Kind.EQUAL}
    for done in judged.history.done:
        table = _ALTERED.search(done.text)
        if ARROW in done.label and not done.error and table and f"{database}.{table[1]}".casefold() in equal:
            yield done.label


def pair_of(label: str) -> str:
    """A pair of types without whether they take NULL, and without defaults."""
    old, _, new = re.sub(r" \((not )?strict\)$", "", label).partition(ARROW)
    return f"{_plain(old)}{ARROW}{_plain(new)}"


def is_computable(pair: str) -> bool:
    """Whether what the server makes of values of one type in another is known exactly."""
    old, _, new = pair.partition(": ")[2].partition(ARROW)
    ends = re.split(r"[ (]", old)[0], re.split(r"[ (]", new)[0]
    return not any(_is_one(ends[0], olds) and _is_one(ends[1], news) for olds, news in NOT_COMPUTABLE)


def _is_one(word: str, words: tuple[str, ...]) -> bool:
    return words == ("",) or word in words


def _plain(declared: str) -> str:
    without = re.sub(r"(?i)( NOT NULL| NULL| DEFAULT .*)$", "", declared.strip()).lower()
    return re.sub(r"^(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)(?! unsigned zerofill)", r"\1", without)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"
