"""Names of struct fields and arguments in Arrow and JSON: `field_names`, `argument_names`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.structured.types.type_layout import TypeKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.structured.types.type_tags import ArgumentTypes, TypeNode

_PLACEHOLDER = b"{}"
_NAMED = re.compile(rb"""([A-Za-z_][A-Za-z0-9_]*) ?[=:] ?["']?$""")


def field_names(types: ArgumentTypes, node: TypeNode) -> list[str]:
    """Names of the members of a struct: their labels.

    A base class has no label: its field is named after it. Other fields without a label are `_1`, `_2`, ... by place.
    """
    return unique_names(_field_name(types, node, index) for index in range(len(node.members)))


def _field_name(types: ArgumentTypes, node: TypeNode, index: int) -> str:
    member = node.members[index]
    label = member.label.of(types.tags)
    base = types.nodes[member.node]
    if not label and base.kind is TypeKind.STRUCT:
        label = base.name.of(types.tags).partition(b"<")[0]
    return label.decode("utf-8", "replace") or f"_{index + 1}"


def argument_names(format_string: bytes, count: int) -> list[str]:
    """Names of a source's arguments: the words before their placeholders, `name={}` or `name: {}`; else `arg0`, ...

    Args:
        format_string: Of the source.
        count: How many arguments it has.
    """
    before = format_string.split(_PLACEHOLDER)[:-1]
    found = [_NAMED.search(text) for text in before[:count]]
    names = [match[1].decode() if match else "" for match in found] + [""] * (count - len(found))
    return unique_names(name or f"arg{index}" for index, name in enumerate(names))


def unique_names(names: Iterable[str]) -> list[str]:
    """*names*, of which those that were there before get `_2`, `_3`, ...; small and capital letters are the same."""
    taken: set[str] = set()
    unique = []
    for name in names:
        one, count = name, 1
        while one.casefold() in taken:
            count += 1
            one = f"{name}_{count}"
        taken.add(one.casefold())
        unique.append(one)
    return unique
