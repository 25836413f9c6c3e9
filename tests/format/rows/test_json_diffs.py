"""Changes to JSON documents, and to their texts, beside the same changes to Python values."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.rows.json.json_diffs import changed_document, parse_path
from binlog_format.rows.json.json_document import BadJsonError, parse_document
from binlog_format.rows.json.json_text_changes import changed_text, text_changes
from tests.chance import examples
from tests.format.rows.plain_json import DOCUMENTS, INSERT, REMOVE, REPLACE, Opaque, change, document
from tests.format.rows.test_json_columns import nested, text


def changed(value: Any, *changes: bytes, large: bool = False) -> Any:
    before = document(value, large=large)
    after = text(changed_document(before, b"".join(changes)))
    assert changed_in_text(text(before), *changes) == after
    return json.loads(after)


def changed_in_text(before: str, *changes: bytes) -> str:
    return changed_text(before, text_changes([b"".join(changes)])[0])


def containers(value: Any, path: str = "$") -> list[tuple[str, Any]]:
    """All objects and arrays in a value, with their paths."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        found.append((path, value))
        for key, part in value.items():
            found += containers(part, f"{path}.{json.dumps(key, ensure_ascii=False)}")
    elif isinstance(value, list):
        found.append((path, value))
        for index, part in enumerate(value):
            found += containers(part, f"{path}[{index}]")
    return found


def _change_something(data: st.DataObject, model: Any) -> bytes:
    # Draws a change that fits, and makes it in the model.
    path, parent = data.draw(st.sampled_from(containers(model)))
    value = data.draw(DOCUMENTS)
    operation = data.draw(st.sampled_from([REPLACE, INSERT, REMOVE])) if parent else INSERT
    if isinstance(parent, list):
        index = data.draw(st.integers(0, len(parent) + 2 if operation == INSERT else len(parent) - 1))
        if operation == INSERT:
            parent.insert(index, value)
        elif operation == REPLACE:
            parent[index] = value
        else:
            del parent[index]
        return change(operation, f"{path}[{index}]", value)
    new_keys = st.text(max_size=5).filter(lambda key: key not in parent)
    key = data.draw(new_keys if operation == INSERT else st.sampled_from(sorted(parent)))
    if operation == REMOVE:
        del parent[key]
    else:
        parent[key] = value
    return change(operation, f"{path}.{json.dumps(key, ensure_ascii=False)}", value)


@given(st.data(), DOCUMENTS.filter(lambda value: isinstance(value, list | dict)), st.booleans())
@settings(max_examples=examples(300))
def test_changes_do_what_they_do_in_python(data: st.DataObject, value: Any, large: bool) -> None:
    model = copy.deepcopy(value)
    changes = [_change_something(data, model) for _ in range(data.draw(st.integers(0, 4)))]
    assert changed(value, *changes, large=large) == model


def test_new_keys_come_where_the_server_sorts_them() -> None:
    after = changed_document(document({"b": 1, "ab": 2, "é": 3}), change(INSERT, "$.c", 4) + change(INSERT, "$.aa", 5))
    assert text(after) == '{"b": 1, "c": 4, "aa": 5, "ab": 2, "é": 3}'


def test_documents_become_large_and_small_again() -> None:
    value = {"a": [1, 70_000], "b": "x"}
    grown = changed_document(document(value), change(REPLACE, "$.b", "y" * 70_000))
    assert json.loads(text(grown)) == {"a": [1, 70_000], "b": "y" * 70_000}
    shrunk = changed_document(grown, change(REMOVE, "$.b") + change(INSERT, "$.a[1]", 2))
    assert json.loads(text(shrunk)) == {"a": [1, 2, 70_000]}
    assert len(shrunk) < 40


def test_values_that_json_does_not_have_stay_what_they_are() -> None:
    decimal = Opaque(246, bytes.fromhex("0804807b1194"), "123.4500")
    after = changed_document(document([decimal, decimal]), change(REPLACE, "$[0]", decimal) + change(REMOVE, "$[1]"))
    assert text(after) == "[123.4500]"
    in_text = changed_in_text(
        '[1.50, 1e500, "2024-01-02"]', change(REPLACE, "$[2]", decimal), change(INSERT, "$[0]", 1)
    )
    assert in_text == "[1, 1.50, 1e500, 123.4500]"


def test_a_text_that_others_have_written_keeps_its_parts() -> None:
    before = ' { "b" :[1,2 ] , "a":{ "x":1}}\n'
    assert changed_in_text(before, change(INSERT, "$.c", 'q"'), change(REMOVE, "$.b[0]")) == (
        '{"b": [2], "a": { "x":1}, "c": "q\\""}'
    )
    assert changed_in_text(before) == before.strip()


@pytest.mark.parametrize(
    "before", ["", "{", '{"b": [1}', '{"b" [1]}', "{1: [1]}", '{"b": [1]} x', '{"b": [1 2]}', "null", "7"]
)
def test_a_text_that_is_no_such_document_is_refused(before: str) -> None:
    with pytest.raises(BadJsonError):
        changed_in_text(before, change(REPLACE, "$.b[0]", 1))


def test_what_is_not_on_the_path_is_not_opened() -> None:
    broken = b"\2\1\0\xff\xff"  # an array with a size larger than it is
    content = bytearray(document([Opaque(15, broken, ""), 1]))
    assert text(changed_document(bytes(content), change(REPLACE, "$[1]", 2))).endswith(", 2]")


def test_no_bytes_are_null_and_have_no_parts() -> None:
    assert parse_document(b"").content == b"\0"
    with pytest.raises(BadJsonError, match=r"there is no .* where a path leads"):
        changed_document(b"", change(REPLACE, "$.a", 1))


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$", []),
        ("$.a", ["a"]),
        ("$.a.b[3]", ["a", "b", 3]),
        ("$[0][12]", [0, 12]),
        ('$."quoted key"."a.b"', ["quoted key", "a.b"]),
        (r'$."a\"b\\c"', ['a"b\\c']),
        (r'$."\u00e9\n"', ["é\n"]),
        ('$.""', [""]),
        ("$.漢字.$x", ["漢字", "$x"]),
        ("$[last].a[last-2]", [-1, "a", -3]),
        ("$ . a [ 1 ] ", ["a", 1]),
    ],
)
def test_paths(path: str, legs: list[str | int]) -> None:
    assert parse_path(path) == legs


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "$a",
        "$.",
        "$[",
        "$[]",
        "$[a]",
        "$[-1]",
        '$."a',
        "$.*",
        "$[*]",
        "$**.a",
        "$.a b",
        r'$."\ud800"',
        r'$."\x"',
    ],
)
def test_what_is_no_path_to_one_value_is_refused(path: str) -> None:
    with pytest.raises(BadJsonError):
        parse_path(path)


@pytest.mark.parametrize(
    "changes",
    [
        b"\3\2$a",  # no operation
        b"\0",
        b"\0\xfc\1",
        b"\0\xfb",
        b"\0\xff",
        b"\0\5$.a",
        change(REPLACE, "$.a", 1)[:-1],
        b"\0\3$.a\0",  # an empty value
        b"\0\3$.a\1\x0d",  # of no type
        b"\0\3$.\xff\2\4\0",
        change(REPLACE, "$", 1),
        change(REPLACE, "$.z", 1),
        change(REPLACE, "$[0]", 1),
        change(REPLACE, "$.b[2]", 1),
        change(REPLACE, "$.a.b", 1),
        change(INSERT, "$.a", 1),  # is there already
        change(INSERT, "$.a[0]", 1),
        change(INSERT, "$.b.c", 1),
        change(REMOVE, "$.z"),
        change(REMOVE, "$.b[last-2]"),
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: bytes) -> None:
    with pytest.raises(BadJsonError):
        changed_document(document({"a": 1, "b": [1, 2]}), changes)
    with pytest.raises(BadJsonError):
        changed_in_text('{"a": 1, "b": [1, 2]}', changes)


def test_a_document_of_overlapping_parts_does_not_grow() -> None:
    whole = nested(20)
    size = len(whole) - 1
    count = 500
    head = 4 + 3 * count
    content = count.to_bytes(2, "little") + (head + size).to_bytes(2, "little")
    content += (b"\2" + head.to_bytes(2, "little")) * count + whole[1:]
    with pytest.raises(BadJsonError, match="overlap"):
        changed_document(b"\2" + content, change(REMOVE, "$[0]"))


@given(DOCUMENTS.map(document), st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))))
@settings(max_examples=examples(300))
def test_any_bytes_give_a_document_or_a_named_error(
    content: bytes, changes: bytes, edits: list[tuple[int, int]]
) -> None:
    spoiled = bytearray(content)
    for place, byte in edits:
        spoiled[place % len(spoiled)] = byte
    for operations in (changes, change(REMOVE, "$[0]") + changes, change(INSERT, "$.new", [1]) + changes):
        try:
            after = changed_document(bytes(spoiled), operations)
        except BadJsonError:
            continue
        assert len(after) <= 4 * (len(spoiled) + len(operations)) + 16
