"""Tests of `type_tags` and `type_table`: cutting and resolving, odd tags included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.type_layout import EMPTY_NODE, NULL_NODE, SpecialStruct, TypeKind
from binlog_format.structured.type_table import TypeTable, type_table
from binlog_format.structured.type_tags import ArgumentTypes, TypeNode, parse_tags
from tests.chance import examples

Shown = str | tuple[object, ...]


def shown(types: ArgumentTypes, number: int, depth: int = 4) -> Shown:
    """A type as nested tuples of kind, name, members; deeper ones as `...`."""
    node = types.nodes[number]
    if depth == 0 and node.members:
        return "..."
    parts: list[object] = [node.kind.name]
    if node.kind in (TypeKind.STRUCT, TypeKind.ENUM):
        parts.append(_text(types, node))
    if node.kind is TypeKind.STRUCT:
        parts += [
            (member.label.of(types.tags).decode(), shown(types, member.node, depth - 1)) for member in node.members
        ]
    else:
        parts += [shown(types, member.node, depth - 1) for member in node.members]
    return parts[0] if len(parts) == 1 else tuple(parts)  # type: ignore[return-value]


def _text(types: ArgumentTypes, node: TypeNode) -> str:
    return node.name.of(types.tags).decode()


def arguments_of(tags: str) -> list[Shown]:
    types = parse_tags(tags.encode())
    return [shown(types, argument.node) for argument in types.arguments]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("i[cD", ["INT32", "TEXT", "EXTENDED"]),
        ("[[c", [("SEQUENCE", "TEXT")]),
        ("()(i[y)", ["TUPLE", ("TUPLE", "INT32", ("SEQUENCE", "BOOL"))]),
        ("<0i><d0>", [("VARIANT", "NULL", "INT32"), ("VARIANT", "DOUBLE", "NULL")]),
        ("{Pt`x'i`y'[c}", [("STRUCT", "Pt", ("x", "INT32"), ("y", "TEXT"))]),
        ("{D`'{B`a'i}`b'i}", [("STRUCT", "D", ("", ("STRUCT", "B", ("a", "INT32"))), ("b", "INT32"))]),
        ("{A<b::c<i>>}", [("STRUCT", "A<b::c<i>>")]),
        ("i0", ["INT32", "BAD_TAG"]),
        ("(0)", [("TUPLE", "BAD_TAG")]),
        ("X", ["BAD_TAG"]),
        ("/", ["BAD_ENUM"]),
        ("/f`E'\\", [("ENUM", "E")]),
        ("/X`E'\\", ["BAD_TAG"]),
        # Never closed: to the end, and the last character goes as if it were the bracket.
        ("((ii", [("TUPLE", "TUPLE")]),
        ("[", [("SEQUENCE", "EMPTY")]),
        ("{", [("STRUCT", "")]),
        ("{Pt`x'ii", [("STRUCT", "Pt", ("x", "INT32"))]),
        # Each pair of brackets counts on its own.
        ("(<)>)", [("TUPLE", "VARIANT"), "BAD_TAG", "BAD_TAG"]),
        # A label without an apostrophe, and a field without a label.
        ("{P`x}", [("STRUCT", "P", ("x", "EMPTY"))]),
        ("{P`x'ii}", [("STRUCT", "P", ("x", "INT32"), ("", "INT32"))]),
    ],
)
def test_tags_are_cut_by_the_rules(tags: str, expected: list[Shown]) -> None:
    assert arguments_of(tags) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("{Foo}", ("STRUCT", "Foo")),
        ("{Node`v'i`n'<0{Node}>}", "{Node}"),
        # The name has to end there.
        ("({FooBar`f'i}{Foo`a'i}{Foo})", ("STRUCT", "Foo", ("a", "INT32"))),
        # The first occurrence decides, also where it is the reference.
        ("({Foo}{Foo`a'i})", ("STRUCT", "Foo")),
        ("({Foo`a'i}{Foo`b'y}{Foo})", ("STRUCT", "Foo", ("a", "INT32"))),
        # Another argument is not searched.
        ("{Foo`a'i}{Foo}", ("STRUCT", "Foo")),
    ],
)
def test_references_find_the_first_struct_of_their_argument(tags: str, expected: Shown) -> None:
    types = parse_tags(tags.encode())
    references = [
        number
        for number, node in enumerate(types.nodes)
        if node.kind is TypeKind.STRUCT and (node.refers or node.fields is None)
    ]
    if expected == "{Node}":
        node = types.nodes[references[0]]
        assert node.members == types.nodes[types.arguments[0].node].members
        assert references[0] in [member.node for member in types.nodes[node.members[1].node].members]
    else:
        assert shown(types, references[-1]) == expected


@pytest.mark.parametrize(
    ("tag", "labels"),
    [
        ("/i`E'0`a'1`b'\\", {0: "a", 1: "b"}),
        ("/b`E'-80`low'7F`high'80`beyond'\\", {-128: "low", 127: "high"}),
        ("/L`E'FFFFFFFFFFFFFFFF`all'-1`never'\\", {(1 << 64) - 1: "all"}),
        ("/i`E'A`first'A`second'\\", {10: "first"}),
        ("/i`E'0A`zero'a`lower'-0`minus'A`ten'\\", {10: "ten"}),
        ("/i`E'\\", {}),
        ("/i`E'1`\\", {1: ""}),
    ],
)
def test_enumerators_are_found_by_value(tag: str, labels: dict[int, str]) -> None:
    types = parse_tags(tag.encode())
    node = types.nodes[types.arguments[0].node]
    assert _text(types, node) == "E"
    assert {value: label.of(types.tags).decode() for value, label in node.enumerators.items()} == labels


@pytest.mark.parametrize(
    ("tag", "singular", "no_bytes"),
    [
        ("()", True, True),
        ("(i)", False, False),
        ("{A`a'{B}`b'()}", True, True),
        ("[()", False, False),
        ("<>", False, False),
        ("({A`e'()}{A})", False, True),  # what refers to fields is not singular, whatever they are
        ("{R`r'{R}}", False, False),
    ],
)
def test_types_with_one_value(tag: str, singular: bool, no_bytes: bool) -> None:
    table = type_table((tag.encode(),))
    row = table.nodes[table.arguments["node"][0]]
    assert (bool(row["singular"]), bool(row["no_bytes"])) == (singular, no_bytes)


@pytest.mark.parametrize(
    ("tag", "special"),
    [
        ("{binlog::address`value'L}", SpecialStruct.ADDRESS),
        ("{binlog::address`value'l}", SpecialStruct.NONE),
        ("{std::chrono::duration<Rep,std::ratio<60>>`count'i}", SpecialStruct.MINUTES),
        ("{std::chrono::duration<Rep,std::ratio<60>>`count'd}", SpecialStruct.NONE),
        (
            "{std::filesystem::directory_entry`path'{std::filesystem::path`str'[c}}",
            SpecialStruct.DIRECTORY_ENTRY,
        ),
    ],
)
def test_special_structs_are_known_by_name_and_fields(tag: str, special: SpecialStruct) -> None:
    types = parse_tags(tag.encode())
    assert types.nodes[types.arguments[0].node].special is special


def test_types_end_where_no_value_can_be_read() -> None:
    deepest = NESTING_MAX - 1
    for depth, kind in ((deepest, TypeKind.INT32), (deepest + 1, TypeKind.TOO_DEEP)):
        assert parse_tags(b"[" * depth + b"i").nodes[-1].kind is kind
    assert len(parse_tags(b"(" * 100_000).nodes) == NESTING_MAX + 3


_ODD_TAGS = st.lists(
    st.sampled_from([*"yciL0[X()<>{}/\\`'", "{A`a'", "{A}", "/i`E'1`b'\\", "[c", "<0", "{B`b'{A}}"]), max_size=30
).map("".join)


@given(st.lists(_ODD_TAGS, max_size=4))
@settings(max_examples=examples(400))
def test_tables_of_any_tags_point_to_what_is_there(tags: list[str]) -> None:
    table = type_table(tuple(tag.encode() for tag in tags))
    _check(table)
    for number, tag in enumerate(tags):
        rows = table.arguments[table.first_argument[number] : table.first_argument[number + 1]]
        cut = [table.pool[start : start + size].tobytes().decode() for _, start, size in rows.tolist()]
        assert "".join(cut) == tag


def _check(table: TypeTable) -> None:
    nodes = table.nodes
    assert nodes["kind"][EMPTY_NODE] == TypeKind.EMPTY
    assert nodes["kind"][NULL_NODE] == TypeKind.NULL
    assert np.array_equal(nodes["size_min"] == 0, nodes["no_bytes"] == 1)
    assert np.all(nodes["singular"] <= nodes["no_bytes"])
    is_enum = nodes["kind"] == TypeKind.ENUM
    for rows, count in ((nodes[is_enum], len(table.enumerators)), (nodes[~is_enum], len(table.members))):
        assert np.all(rows["first"] >= 0)
        assert np.all(rows["first"] + rows["count"] <= count)
    assert np.all(table.members["node"] < len(nodes))
    assert np.all(table.arguments["node"] < len(nodes))
    for starts, sizes in (
        (nodes["name_start"], nodes["name_size"]),
        (table.members["label_start"], table.members["label_size"]),
        (table.enumerators["label_start"], table.enumerators["label_size"]),
    ):
        assert np.all(starts >= 0)
        assert np.all(sizes >= 0)
        assert np.all(starts + sizes <= len(table.pool))
    for row in nodes[is_enum]:
        values = table.enumerators["value"][row["first"] : row["first"] + row["count"]]
        assert np.array_equal(values, np.unique(values))
