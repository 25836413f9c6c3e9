"""Tests of `json_texts`: arguments as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from binlog_format.errors import CorruptError
from binlog_format.structured.arguments.json_texts import arguments_json
from tests.chance import examples
from tests.format.structured.arguments.blocks import (
    all_rows,
    block_of_events,
    corpus_arguments,
    corpus_block,
    corpus_files,
    source,
)
from tests.format.structured.arguments.model import Events, all_same_json, events

if TYPE_CHECKING:
    from binlog_format.structured.event_log import LogBlock


def _json(block: LogBlock, count: int) -> list[Any]:
    texts = arguments_json(block, all_rows(block)[:count])
    texts.validate(full=True)
    return [json.loads(text) for text in texts.to_pylist()]


@pytest.mark.parametrize("name", corpus_files())
def test_events_of_the_corpus(name: str) -> None:
    block = corpus_block(name)
    expected, _ = corpus_arguments(name)
    texts = _json(block, len(expected))
    for row, (shown, values) in enumerate(zip(texts, expected, strict=True)):
        assert all_same_json(shown, values), (row, shown, values)
    if len(block.events) > len(expected):  # the one after them cannot be read
        with pytest.raises(
            CorruptError, match=r"BAD_ENTRY\] .*byte 0x[0-9a-f]+: argument \d+ of source \d+ \(.*\): its? "
        ):
            _json(block, len(expected) + 1)


@given(events())
@settings(max_examples=examples(400))
def test_any_arguments(made: Events) -> None:
    block = block_of_events(source(made.tags.encode()), [content + b"extra" for _, content in made.events])
    for shown, (values, _) in zip(_json(block, len(made.events)), made.events, strict=True):
        assert all_same_json(shown, values)
