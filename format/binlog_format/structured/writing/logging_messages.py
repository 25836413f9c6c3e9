"""Messages of Python's `logging` as formats with `{}` and values: `message_of`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.structured.writing.logger import PLACEHOLDER

if TYPE_CHECKING:
    import logging

_CONVERSION = re.compile(r"%(?:\((?P<key>[^)]*)\))?[-#0 +]*(?:\*|\d*)(?:\.(?:\*|\d*))?[hlL]?(?P<type>.)", re.DOTALL)
_INTEGER_TYPES = frozenset("diu")
_FLOAT_TYPES = frozenset("eEfFgG")
_FORMATS_REMEMBERED = 4096


class _Conversion(NamedTuple):
    """`%s` and its like, and the literal text before it.

    Attributes:
        literal: Before it.
        text: As it is in the message; nothing: the message ends there.
        key: Of its value, where the values are a dict.
        type: Its last letter.
    """

    literal: str
    text: str = ""
    key: str | None = None
    type: str = ""


def message_of(record: logging.LogRecord) -> tuple[str, tuple[object, ...]]:
    """The format and the values of a record's message.

    Numbers keep their types and all their digits: width and precision of `%` conversions have no effect. Other
    conversions than those of numbers and `%s` give text. A message with as many `{}` as values, and no conversion, is
    taken as it is.

    Raises:
        TypeError: Message and values do not fit; `ValueError`, `KeyError`: the same, as for Python's own handlers.
    """
    message, values = str(record.msg), record.args
    if not values:
        return _with_literals([message], [])
    conversions = _conversions(message)
    if len(conversions) == 1 and message.count(PLACEHOLDER) == len(values):
        return message, tuple(values.values()) if isinstance(values, Mapping) else values
    if isinstance(values, Mapping):
        found = [values[one.key] if one.key is not None else values for one in conversions[:-1] if one.type != "%"]
    elif any("*" in one.text for one in conversions):
        return _with_literals([message % values], [])
    else:
        found = list(values)
    wanted = [one for one in conversions[:-1] if one.type != "%"]
    if len(found) != len(wanted):
        raise TypeError(f"{message!r} has {len(wanted)} conversions, but {len(found)} values")
    return _converted(conversions, found)


@lru_cache(_FORMATS_REMEMBERED)
def _conversions(message: str) -> tuple[_Conversion, ...]:
    conversions = []
    end = 0
    for found in _CONVERSION.finditer(message):
        conversions.append(_Conversion(message[end : found.start()], found[0], found["key"], found["type"]))
        end = found.end()
    return (*conversions, _Conversion(message[end:]))


def _converted(conversions: tuple[_Conversion, ...], found: list[object]) -> tuple[str, tuple[object, ...]]:
    literals, values = [""], []
    following = iter(found)
    for one in conversions:
        literals[-1] += one.literal
        if one.type == "%":
            literals[-1] += "%"
        elif one.type:
            values.append(_value(one, next(following)))
            literals.append("")
    return _with_literals(literals, values)


def _value(conversion: _Conversion, value: object) -> object:
    if conversion.type == "s":
        return value
    if isinstance(value, Real):
        if conversion.type in _INTEGER_TYPES:
            return math.trunc(value)
        if conversion.type in _FLOAT_TYPES:
            return float(value)
    # As text, or the error that Python's own handlers have.
    return re.sub(r"\(.*\)", "", conversion.text, count=1, flags=re.DOTALL) % (value,)


def _with_literals(literals: list[str], values: list[object]) -> tuple[str, tuple[object, ...]]:
    """The format of literal texts with a value after each but the last: `{}` in a text becomes a value, too."""
    all_values: list[object] = []
    for number, literal in enumerate(literals):
        all_values += [PLACEHOLDER] * literal.count(PLACEHOLDER)
        all_values += values[number : number + 1]
    return PLACEHOLDER.join(literals), tuple(all_values)
