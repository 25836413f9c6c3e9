"""Arguments of `bread`, taken apart as getopt does for the library's own reader: `parse_arguments`, `HELP`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from binlog_format.structured.text.event_format import DEFAULT_EVENT_FORMAT
from binlog_format.structured.text.lines import DEFAULT_DATE_FORMAT

STANDARD_INPUT = "-"

VALUED = ("--output", "--sort-window")
"""Options with a value."""
SELECTING = ("--severity", "--category", "--file", "--since")
"""Options that select events."""

HELP = """\
bread -- print structured logs of the C++ library Binlog as text

Synopsis:
  binlog-stream bread [-f format] [-d date-format] [-s] [-h] [file]
  binlog-stream bread [--follow] [--all] [--skip-damaged] [--output jsonl] ... [file ...]

Arguments:
  file    Log to read; without one, or if it is -, standard input. Only the first is read, except with --all.

Options, as the library's bread has them:
  -f FORMAT   What a line consists of; see below. A newline is added.
  -d FORMAT   How times are written; see below.
  -s          Sort all events by their clock value. Many lines wait in a temporary file; prints nothing if anything is
              damaged.
  -h          Print this text.

Options beside these:
  --follow        Go on with what is written to the file, and to the file that takes its name after rotation.
                  Ctrl-C ends it.
  --all           Read all files given, one after the other, as one log.
  --skip-damaged  Go on after damage, and report on standard error what was left out; exit status 3 then.
                  Needs files, not a pipe.
  --severity NAME Events of this severity or a higher one: trace, debug, info, warning, error, critical, or a number.
  --category RE   Events whose category matches: regular expressions, separated by commas, for the whole text.
  --file RE       The same for the source file, with its folders.
  --since TIME    Events at this time or later, for example 2026-01-31T12:00:00Z; those without a time are left out.
  --sort-window DURATION
                  Sort events by time, and print each when one so much later has come, or nothing for so long: for
                  --follow, and pipes that have no end. For example 500ms, 10s, 5m. Standard error tells at the end how
                  many events came later than that, which stand after later ones. Excludes -s.
  --output jsonl  A JSON object a line: position, time, ns, severity, severity_no, category, function, file, line,
                  writer_id, writer, source_id, format, message, args. Excludes -f, -d, -s
                  and --sort-window.

Placeholders of an event format:
  %I  id of the log statement        %n  name of the writer (often the thread)
  %S  severity, four letters         %t  id of the writer
  %C  category                       %d  time, where the program ran
  %M  function                       %u  time, UTC
  %F  source file, with folders      %r  clock value, as it was logged
  %G  source file, without           %m  message
  %L  line                           %%  %
  %P  format of the message          %T  type tags of its arguments

Placeholders of a date format:
  %Y  year            %m  month       %d  day
  %y  two digits      %H  hour        %M  minute      %S  second
  %N  nanoseconds     %z  +hhmm       %Z  name of the time zone

Exit status: 0 done; 1 wrong options; 2 a file cannot be opened; 3 the log is damaged.

Examples:
  binlog-stream bread app.blog
  binlog-stream bread -s -f '%S %u %m' -d '%H:%M:%S.%N' app.blog
  binlog-stream bread --follow app.blog
  zcat app.blog.gz | binlog-stream bread
  binlog-stream bread --output jsonl app.blog | jq 'select(.severity == "error")'
"""


class UsageError(Exception):
    """Arguments that are none; the message is getopt's."""


@dataclass(slots=True)
class BreadArguments:
    """Options of `bread`.

    Attributes:
        event_format: With its newline.
        date_format: See `HELP`.
        sort: By clock value.
        help: Print `HELP`, and nothing else.
        follow: Go on when the file grows.
        jsonl: JSON instead of text.
        sort_window: Sort by time, as far as events are so far from it; None: not.
        wanted: Values of the options that select events, by name; empty: all are wanted.
    """

    event_format: bytes = DEFAULT_EVENT_FORMAT
    date_format: bytes = DEFAULT_DATE_FORMAT
    sort: bool = False
    help: bool = False
    follow: bool = False
    all_files: bool = False
    skip_damaged: bool = False
    jsonl: bool = False
    sort_window: str | None = None
    wanted: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def is_extended(self) -> bool:
        """True if an option is given that the library's reader does not have."""
        has_value = self.wanted or self.sort_window is not None
        return bool(has_value) or self.follow or self.all_files or self.skip_damaged or self.jsonl

    @property
    def wanted_files(self) -> list[str]:
        """Files to read."""
        files = self.files or [STANDARD_INPUT]
        return files if self.all_files else files[:1]


def parse_arguments(words: list[str]) -> BreadArguments:
    """Take command line words apart. Options may follow files; of one kind the last counts.

    Raises:
        UsageError: An option does not exist, or lacks its value.
    """
    arguments = BreadArguments()
    left = list(words)
    text_options: set[str] = set()
    while left and not arguments.help:
        word = left.pop(0)
        if word == "--":
            arguments.files += left
            break
        if word.startswith("--"):
            _take_long(word, left, arguments)
        elif word.startswith("-") and word != STANDARD_INPUT:
            text_options |= _take_short(word[1:], left, arguments)
        else:
            arguments.files.append(word)
    if not arguments.help:
        _check(arguments, text_options)
    return arguments


def _take_short(letters: str, left: list[str], arguments: BreadArguments) -> set[str]:
    # `-sf %m`, `-f%m` and `-f %m` are all right; gives the options that were there.
    taken: set[str] = set()
    while letters and not arguments.help:
        letter, letters = letters[0], letters[1:]
        taken.add(letter)
        if letter == "s":
            arguments.sort = True
        elif letter == "h":
            arguments.help = True
        elif letter not in "fd":
            raise UsageError(f"invalid option -- '{letter}'")
        elif not letters and not left:
            raise UsageError(f"option requires an argument -- '{letter}'")
        else:
            value = os.fsencode(letters or left.pop(0))
            letters = ""
            if letter == "f":
                arguments.event_format = value + b"\n"
            else:
                arguments.date_format = value
    return taken


def _take_long(word: str, left: list[str], arguments: BreadArguments) -> None:
    name, has_value, value = word.partition("=")
    if name in VALUED or name in SELECTING:
        if not has_value and not left:
            raise UsageError(f"option '{name}' requires an argument")
        value = value if has_value else left.pop(0)
        if name in SELECTING:
            arguments.wanted[name] = value
            return
        if name == "--sort-window":
            arguments.sort_window = value
            return
        if value != "jsonl":
            raise UsageError(f"option '--output': expected jsonl, got '{value}'")
        arguments.jsonl = True
    elif word == "--follow":
        arguments.follow = True
    elif word == "--all":
        arguments.all_files = True
    elif word == "--skip-damaged":
        arguments.skip_damaged = True
    elif word == "--help":
        arguments.help = True
    else:
        # What the library's reader, which has no long options, makes of it.
        raise UsageError("invalid option -- '-'")


def _check(arguments: BreadArguments, text_options: set[str]) -> None:
    if arguments.jsonl and text_options:
        raise UsageError(f"option '--output jsonl' excludes -{min(text_options)}")
    if arguments.follow and arguments.sort:
        raise UsageError("option '--follow' excludes -s: there is no end to sort; see --sort-window")
    if arguments.sort_window is not None and (arguments.sort or arguments.jsonl):
        raise UsageError(f"option '--sort-window' excludes {'-s' if arguments.sort else '--output jsonl'}")
    for name, is_set in (("--follow", arguments.follow), ("--skip-damaged", arguments.skip_damaged)):
        if is_set and STANDARD_INPUT in arguments.wanted_files:
            raise UsageError(f"option '{name}' needs a file")
