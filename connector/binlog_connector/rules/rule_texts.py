"""Rules in a text or a file of their own: `read_rules`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.rules.row_rule import RowRule, RuleError
from binlog_connector.rules.row_rules import bound_rule, table_rules
from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_connector.rules.row_rules import TableRules

_HINT = (
    'Give a JSON list such as [{"select": "shop.customers", "mask": {"email": "null"}}], or the path of a TOML file '
    "with sections [[tables]]"
)


class _RuleFile(msgspec.Struct, forbid_unknown_fields=True):
    tables: list[RowRule]


def read_rules(text: str, *, needs_key: bool = False) -> TableRules | None:
    """The rules in *text*; None: they hide nothing.

    Args:
        text: JSON, a list of rules or one of them; or the path of a TOML file with sections `[[tables]]`.
        needs_key: Whether primary keys must stay keys, as those of messages.

    Raises:
        OptionError: `INVALID_VALUE`; `MISSING`: a salt is not in the environment.
        AccessError, StorageError: The file cannot be read.
    """
    is_json = text.lstrip().startswith(("[", "{"))
    at = None if is_json else Place(text)
    try:
        rules = _of_json(text) if is_json else _of_file(Path(text))
        for number, rule in enumerate(rules):
            _check(rule, number)
    except (msgspec.ValidationError, msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError("INVALID_VALUE", f"option rules: {error}", at=at, hint=_HINT) from error
    return table_rules(bound_rule(rule, needs_key=needs_key) for rule in rules)


def _of_json(text: str) -> list[RowRule]:
    decoded = msgspec.json.decode(text)
    return msgspec.convert(decoded if isinstance(decoded, list) else [decoded], list[RowRule])


def _of_file(path: Path) -> list[RowRule]:
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return msgspec.convert(tomllib.loads(content), _RuleFile).tables


def _check(rule: RowRule, number: int) -> None:
    try:
        rule.check()
    except RuleError as error:
        key = "" if error.key is None else f".{error.key}"
        reason = f"option rules: [{number}].{error.setting}{key}: {error}"
        raise OptionError("INVALID_VALUE", reason, hint=error.hint) from error
