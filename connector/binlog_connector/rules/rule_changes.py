"""Rules at the start of a job or a table, compared with those now: `hiding_changes`, `rules_fingerprint`."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.rules.row_rule import RowRule, folded
from binlog_connector.rules.row_rules import TableRules, read_salt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.rows.decoding import Decoding

_DROPS_GENERATED = "generated: drop"
_HIDING = ("columns", "drop_columns", "mask", "where")
_ROUNDS = 200_000  # who finds a fingerprint shall not find the salt by trying
_NOT_ABOUT_ROWS = "binlog-stream"
_DIGITS = 16


def salt_fingerprints(rules: Iterable[RowRule]) -> dict[str, str]:
    """Fingerprints of the salts of *rules*, by environment variable.

    Raises:
        OptionError: `MISSING`: one is not set.
    """
    variables = {rule.salt_variable for rule in rules if rule.salt_variable is not None}
    return {variable: _fingerprint(read_salt(variable)) for variable in sorted(variables)}


@functools.cache
def _fingerprint(salt: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", salt, _NOT_ABOUT_ROWS.encode(), _ROUNDS).hex()[:_DIGITS]


def rules_fingerprint(decoding: Decoding, database: str, table: str) -> str:
    """Fingerprint of a table's rule and its salt; empty: nothing of the table is hidden."""
    bound = decoding.rules.of(database, table) if isinstance(decoding.rules, TableRules) else None
    if bound is None:
        return ""
    settings = [f"{name}: {_told(getattr(bound.rule, name))}" for name in _HIDING]
    settings += [_DROPS_GENERATED] if bound.rule.drops_generated else []  # the rest have the fingerprint they had
    salt = _fingerprint(bound.salt) if bound.salt else ""
    return hashlib.sha256("\n".join([*settings, salt]).encode()).hexdigest()[:_DIGITS]


def hiding_part(rule: RowRule) -> RowRule:
    """The part of a rule about rows and columns, and its tables."""
    names = (field.name for field in msgspec.structs.fields(RowRule))
    return RowRule(**{name: getattr(rule, name) for name in names})


def hiding_changes(
    before: RowRule, salts_before: Mapping[str, str], after: RowRule, salts_after: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The settings that show tables otherwise than before: name, what it was, what it is.

    A column may be one that a table does not have (`name?`), or not any more, whenever that turns out.

    Args:
        before: The rule.
        salts_before: As `salt_fingerprints` gave them.
        after: What it is now.
        salts_after: As they are now.
    """
    changes = []
    for setting in _HIDING:
        was, is_now = (_told(getattr(rule, setting)) for rule in (before, after))
        if was != is_now:
            changes.append((setting, was, is_now))
    was, is_now = ("drop" if rule.drops_generated else "kept" for rule in (before, after))
    if was != is_now:
        changes.append(("generated", was, is_now))
    was, is_now = salts_before.get(before.salt_variable or "", ""), salts_after.get(after.salt_variable or "", "")
    if was != is_now and not changes:
        changes.append(("salt_variable", f"the salt {was}", f"the salt {is_now}"))
    return changes


def _told(value: str | tuple[str, ...] | dict[str, str] | None) -> str:
    if isinstance(value, dict):
        return ", ".join(sorted(f"{folded(name)} = {mask}" for name, mask in value.items()))
    return value or "" if isinstance(value, str | None) else ", ".join(sorted(map(folded, value)))
