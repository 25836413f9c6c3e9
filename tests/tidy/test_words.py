"""Names, docstrings and pages use the words of the field, and docstrings begin with what a thing is or does.

The lists have words that this project once used in a sense of its own, and that are wrong wherever they appear. Words
of the same kind that plain English needs too are left out, since a test cannot tell the senses apart: *behind* (right
for lag), *ends*, *missing*, *marks*, *steps*, *pieces*, *reached*, *ahead*, *kept*, *received* and *described*, and
*said* in histories (CHANGELOG, decisions). `--hand-over` is an option with this name; `JobRecord` and `JobState` are
each one class now.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.tidy.test_tidy import REPO, SOURCES, _name, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = sorted(
    [REPO / "README.md", REPO / "CONTRIBUTING.md", *(REPO / "docs").rglob("*.md"), *(REPO / "conf").glob("*.toml")]
)
# A question, or "Of ..." without a noun before it, makes a riddle of a docstring: say *the number of*, *True if*,
# *reason why*, *place of*. "See `X`." stands for what another docstring describes.
OPENING = re.compile(r"(Whether|What|Whatever|Who|Whoever|Whose|Whom|How|Where|Which|Whichever|Why|When|Of|As|If)\b")
NAMES = {
    "Admission": "TableChecks",
    "Carried": "CascadedChange",
    "EndAhead": "NextOffsetPrefetch",
    "EntryLog": "EventLog",
    "Following": "FollowOptions",
    "LinkedImages": "CascadeImages",
    "LinkedRows": "CascadeRows",
    "Looks": "OpenTargets, FormatGuess",
    "NotUnderstood": "UnsupportedChange",
    "Occasion": "BlockContext",
    "Overruled": "SupersededRows",
    "PartitionsEmptied": "PartitionsDropped",
    "Publishing": "PublisherOptions",
    "Stretch": "SavedBytes, FileRange",
    "Ticket": "CommitId",
    "aligned": "schema_cast",
    "conforming": "schema_cast",
    "end_of_data": "log_end",
    "fate": "rollbacks",
    "kept_tables": "selected_tables",
    "looks_like": "guess_format",
    "occasion": "context",
    "overrule": "find_superseded",
    "overruled": "superseded_by_later_part",
    "overruling": "superseded_by_later_part",
    "put_aside": "set_aside",
    "saw": "record_batch, count_commits",
    "settle": "freeze_garbage_collector, sync_names",
    "shown_changes": "apply_rules_to_changes",
    "shown_images": "apply_rules_to_images",
    "shown_table": "apply_rules_to_table",
    "standing": "target_state",
    "take_back": "resume_tables, clear_position",
    "take_out": "remove_rows",
    "takes_overruled": "supports_late_dedup",
    "supports_parts": "supports_parallel_write",
    "truth": "expected rows",
    "truths": "expected rows",
}
PHRASES = {
    "kept table": "selected table",
    "behind the running batch": "after the current batch",
    "rows that are there": "existing rows",
    "stands at": "is at, has reached",
    "the truth": "expected rows, the server's rows",
    "what is known of": "the thing itself",
    "what there is of": "the thing itself",
    "worked out": "computed",
    "works out": "computes",
}
# A phrase may go on in the next line, of a comment too.
PHRASE = re.compile(rf"\b({'|'.join(PHRASES)})s?\b".replace(" ", r"[\s#]+"), re.IGNORECASE)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring: of modules, classes and functions, and of what is assigned above it."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield statement.lineno, text


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of all that a module defines: classes, functions, arguments and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name


def _riddles(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, text.strip()[:60]) for line, text in _docstrings(tree) if OPENING.match(text.strip())]


def _old_names(tree: ast.Module) -> list[tuple[int, str, str]]:
    return [(line, name, NAMES[name.strip("_")]) for line, name in _names(tree) if name.strip("_") in NAMES]


def _old_phrases(text: str) -> list[tuple[int, str]]:
    return [(text.count("\n", 0, found.start()) + 1, found[0]) for found in PHRASE.finditer(text)]


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_docstrings_begin_with_what_a_thing_is_or_does(path: Path) -> None:
    assert _riddles(tree_of(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_names_are_those_of_the_field(path: Path) -> None:
    tree = tree_of(path)
    assert _old_names(tree) == []
    assert path.stem not in NAMES
    assert [(line, _old_phrases(text)) for line, text in _docstrings(tree) if _old_phrases(text)] == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_pages_use_plain_words(path: Path) -> None:
    assert _old_phrases(path.read_text()) == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_no_merge_is_left_in_a_page(path: Path) -> None:
    assert re.findall(r"^(?:<{7} |={7}$|>{7} ).*", path.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Whether what is compiled once stays."""',
        'class A:\n    """How a job is."""',
        'def f():\n    """Of a MySQL log the set of all."""',
        'X = 1\n"""Where reading ends."""',
    ],
)
def test_a_riddle_is_found(source: str) -> None:
    assert len(_riddles(ast.parse(source))) == 1


@pytest.mark.parametrize("source", ["class Ticket: ...", "def put_aside(): ...", "def f(occasion): ...", "_fate = 1"])
def test_an_old_name_is_found(source: str) -> None:
    assert len(_old_names(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "text", ["Kept tables of a job", "all rows that\nare there", "it is worked out", "It stands at 3."]
)
def test_an_old_phrase_is_found(text: str) -> None:
    assert len(_old_phrases(text)) == 1


def test_plain_words_are_not_taken_for_old_ones() -> None:
    tree = ast.parse('class Tickets:\n    """The number of tickets, if any. What follows is in `f`."""\n    sawn = 1')
    assert _riddles(tree) == []
    assert _old_names(tree) == []
    assert _old_phrases("Outstanding tables are kept; one is behind.") == []
