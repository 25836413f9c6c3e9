"""Every command has examples in its `--help`; its own parser takes them, and those of the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from binlog_streaming.cli.app import VERBATIM_COMMANDS
from binlog_streaming.cli.logs.bread.arguments import parse_arguments
from tests.docs.markdown import REPO, command_lines
from tests.program import all_commands, calls_in, help_examples

EXAMPLES = help_examples()
WIDTH_MAX = 73
"""Longer lines would be cut in two by a terminal of 80 columns."""
SHELL_WORDS = ("|", "||", "&&", "&", ";", ">", "<", "2>")
_FILE = re.compile(r"[\w-]+\.(sql|jsonl|ops|toml)")
PAGES = [str(page.relative_to(REPO)) for page in (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md")))]


def parse(name: str, arguments: list[str]) -> None:
    """Parse a call as the program does; what it would do is not done."""
    if name in VERBATIM_COMMANDS:
        if name == "bread":
            parse_arguments(arguments)
        return
    for word in arguments:
        if _FILE.fullmatch(word):
            Path(word).touch()  # it is the reader's
    all_commands().commands[name].make_context(name, list(arguments))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_of_help_are_calls_of_the_command(name: str) -> None:
    lines = EXAMPLES[name]
    assert lines
    assert [line for line in lines if name not in VERBATIM_COMMANDS and len(line) > WIDTH_MAX] == []
    called = [call for line in lines for call in calls_in(line)]
    assert name in {command for command, *_ in called}
    for command, *arguments in called:
        parse(command, arguments)


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_pages_can_be_parsed(page: str) -> None:
    for command, *arguments in command_lines(page):
        end = next((place for place, word in enumerate(arguments) if word in SHELL_WORDS), None)
        parse(command, arguments[:end])


def test_an_option_that_does_not_exist_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("files", ["/var/lib/mysql", "--ouput", "jsonl"])


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("zcat a | binlog-stream bread -f '%S | %m'", [["bread", "-f", "%S | %m"]]),
        ("binlog-stream init LOG > job.toml && binlog-stream check job.toml", [["init", "LOG"], ["check", "job.toml"]]),
    ],
)
def test_calls_are_found_between_words_of_the_shell(line: str, calls: list[list[str]]) -> None:
    found = list(calls_in(line))
    assert [call[: len(wanted)] for call, wanted in zip(found, calls, strict=True)] == calls
