"""The argument types of sources as tables for kernels: `type_table`.

A kernel walks a value with a stack of its own and checks, at each value: `NESTING_MAX` less the number of types that it
is nested in, before any byte is read (not for `EMPTY` and `NULL`, which have none); the bytes that are left; before it
enters a sequence, that so many elements of at least `size_min` bytes can be left.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import as_bytes
from binlog_format.structured.type_layout import (
    ARGUMENT_DTYPE,
    COUNT_SIZE,
    EMPTY_NODE,
    ENUMERATOR_DTYPE,
    INDEX_SIZE,
    NULL_NODE,
    SCALAR_SIZES,
    TYPE_MEMBER_DTYPE,
    TYPE_NODE_DTYPE,
    TypeKind,
)
from binlog_format.structured.type_tags import parse_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.structured.type_tags import ArgumentTypes, TypeNode

_FIXED_MEMBERS = frozenset({TypeKind.TUPLE, TypeKind.STRUCT})
_SIZE_MIN_MAX = 1 << 30
"""Types that refer to each other can claim anything; times any count of 4 bytes this fits into 64 bits."""
_CACHED_SOURCES = 4096
_CACHED_TABLES = 16


@dataclass(frozen=True, slots=True, eq=False)
class TypeTable:
    """The types of the arguments of one or many sources.

    Attributes:
        nodes: `TYPE_NODE_DTYPE`; `EMPTY_NODE` and `NULL_NODE` first.
        members: `TYPE_MEMBER_DTYPE`: nodes of members.
        enumerators: `ENUMERATOR_DTYPE`, those of one enum sorted by value.
        arguments: `ARGUMENT_DTYPE`, those of one source one after the other.
        first_argument: Of each source the row of its first argument, and the number of all: shape (sources + 1).
        pool: The tags of all sources, which contain all names and labels; never empty.
    """

    nodes: Table
    members: Table
    enumerators: Table
    arguments: Table
    first_argument: Int64s
    pool: Bytes


@functools.lru_cache(maxsize=_CACHED_TABLES)
def type_table(argument_tags: tuple[bytes, ...]) -> TypeTable:
    """The types of sources, in their order.

    Args:
        argument_tags: Of each source. The nodes of the first one have the same numbers as in `parse_tags`.
    """
    if not argument_tags:
        nothing = _source_table(b"")
        return replace(nothing, first_argument=nothing.first_argument[:1])
    return joined_tables([_source_table(tags) for tags in argument_tags])


def joined_tables(tables: Sequence[TypeTable]) -> TypeTable:
    """The sources of some tables, at least one, in their order, as one table."""
    shifted = []
    nodes = members = enumerators = arguments = pool = 0
    for table in tables:
        shifted.append(_shifted(table, nodes, members, enumerators, arguments, pool))
        nodes += len(table.nodes)
        members += len(table.members)
        enumerators += len(table.enumerators)
        arguments += len(table.arguments)
        pool += len(table.pool)
    return TypeTable(
        nodes=np.concatenate([table.nodes for table in shifted]),
        members=np.concatenate([table.members for table in shifted]),
        enumerators=np.concatenate([table.enumerators for table in shifted]),
        arguments=np.concatenate([table.arguments for table in shifted]),
        first_argument=np.concatenate([tables[0].first_argument, *(table.first_argument[1:] for table in shifted[1:])]),
        pool=np.concatenate([table.pool for table in shifted]),
    )


def _shifted(table: TypeTable, nodes: int, members: int, enumerators: int, arguments: int, pool: int) -> TypeTable:
    # As it is after so many rows, and bytes, of other sources.
    firsts = np.where(table.nodes["kind"] == TypeKind.ENUM, enumerators, members)
    return TypeTable(
        nodes=_added(table.nodes, first=firsts, name_start=pool),
        members=_added(table.members, node=nodes, label_start=pool),
        enumerators=_added(table.enumerators, label_start=pool),
        arguments=_added(table.arguments, node=nodes, tag_start=pool),
        first_argument=table.first_argument + arguments,
        pool=table.pool,
    )


def _added(rows: Table, **additions: int | Int64s) -> Table:
    rows = rows.copy()
    for field, addition in additions.items():
        rows[field] += addition
    return rows


@functools.lru_cache(maxsize=_CACHED_SOURCES)
def _source_table(tags: bytes) -> TypeTable:
    types = parse_tags(tags)
    members = [
        (member.node, member.label.start, member.label.end - member.label.start)
        for node in types.nodes
        for member in node.members
    ]
    enumerators = [
        row
        for node in types.nodes
        for row in sorted(
            (_as_int64(value), label.start, label.end - label.start) for value, label in node.enumerators.items()
        )
    ]
    return TypeTable(
        nodes=_nodes(types),
        members=np.array(members, dtype=TYPE_MEMBER_DTYPE),
        enumerators=np.array(enumerators, dtype=ENUMERATOR_DTYPE),
        arguments=np.array(
            [
                (argument.node, argument.tag.start, argument.tag.end - argument.tag.start)
                for argument in types.arguments
            ],
            dtype=ARGUMENT_DTYPE,
        ),
        first_argument=np.array([0, len(types.arguments)], dtype=np.int64),
        pool=as_bytes(tags),
    )


def _as_int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 == 1 else value


def _nodes(types: ArgumentTypes) -> Table:
    rows = np.zeros(len(types.nodes), dtype=TYPE_NODE_DTYPE)
    no_bytes = _without_bytes(types.nodes)
    size_min = _least_sizes(types.nodes, no_bytes)
    member_count = enumerator_count = 0
    for number, node in enumerate(types.nodes):
        name = node.name.of(types.tags)
        first, count = member_count, len(node.members)
        if node.kind is TypeKind.ENUM:
            first, count = enumerator_count, len(node.enumerators)
        rows[number] = (
            node.kind,
            node.integer,
            node.special,
            node.singular,
            no_bytes[number],
            first,
            count,
            size_min[number],
            node.name.start,
            len(name),
            len(name.partition(b"<")[0]),
        )
        member_count += len(node.members)
        enumerator_count += len(node.enumerators)
    return rows


def _without_bytes(nodes: list[TypeNode]) -> list[bool]:
    # Tuples and structs of nothing but such types. Those that contain themselves have no end, and are none of them.
    parents: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        if node.kind in _FIXED_MEMBERS:
            for member in node.members:
                parents[member.node].append(number)
    with_bytes = [len(node.members) for node in nodes]
    none = [node.kind in _FIXED_MEMBERS and not node.members for node in nodes]
    none[EMPTY_NODE] = none[NULL_NODE] = True
    found = [number for number, is_one in enumerate(none) if is_one]
    while found:
        for parent in parents[found.pop()]:
            with_bytes[parent] -= 1
            if with_bytes[parent] == 0:
                none[parent] = True
                found.append(parent)
    return none


def _least_sizes(nodes: list[TypeNode], no_bytes: list[bool]) -> list[int]:
    # Never too much; where types refer to each other, and odd tags overlap, less than it could be.
    sizes = [0 if none else 1 for none in no_bytes]
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        kind = node.integer if node.kind is TypeKind.ENUM else node.kind
        if kind in SCALAR_SIZES:
            sizes[number] = SCALAR_SIZES[kind]
        elif kind in (TypeKind.TEXT, TypeKind.SEQUENCE):
            sizes[number] = COUNT_SIZE
        elif kind is TypeKind.VARIANT:
            sizes[number] = INDEX_SIZE
        elif kind in _FIXED_MEMBERS and not no_bytes[number]:
            sizes[number] = min(max(sum(sizes[member.node] for member in node.members), 1), _SIZE_MIN_MAX)
    return sizes
