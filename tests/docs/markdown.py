"""What a document shows as code: `code_blocks`, `command_lines`, `table_rows`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PROGRAM = "binlog-stream"
_PLACEHOLDER = re.compile(r"[A-Z]+")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block.

    Attributes:
        document: Path below the repository.
        line: Number of its first line in the document.
        language: What stands behind the fence.
    """

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def code_blocks(document: str, language: str) -> list[CodeBlock]:
    """The fenced blocks of *document* in *language*."""
    found = []
    lines = (REPO / document).read_text().splitlines()
    begin = 0
    opened: str | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            begin, opened = number + 1, line.removeprefix("```")
            continue
        if opened == language:
            found.append(CodeBlock(document, begin + 1, opened, "\n".join(lines[begin:number]) + "\n"))
        opened = None
    return found


def command_lines(document: str) -> list[list[str]]:
    """The arguments of each indented line that calls the program; up to a comment or a pipe."""
    found = []
    for line in (REPO / document).read_text().splitlines():
        if line.startswith(f"    {PROGRAM} "):
            words = shlex.split(line, comments=True)
            arguments = words[1 : words.index("|")] if "|" in words else words[1:]
            if not any(_PLACEHOLDER.fullmatch(word) for word in arguments):
                found.append(arguments)
    return found


def table_rows(document: str, heading: str) -> list[list[str]]:
    """The cells of the first table behind the line *heading*, without its head."""
    text = (REPO / document).read_text().split(f"\n{heading}\n", 1)[1]
    lines = text[text.index("\n|") + 1 :].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        rows.append([cell.strip().replace(r"\|", "|") for cell in cells])
    return rows
