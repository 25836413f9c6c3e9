"""Statements that contain passwords: `is_account_statement(text)`, `contain_passwords(texts)`; they are shown nowhere.

Statements about accounts are told by their first words, in upper or lower case, with comments between them. A routine,
a trigger or an event may contain such a statement.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# What may be between two words: executable comments are read as what is in them, so their edges alone are passed over.
_GAP = r"(?:\s|--[^\n]*\n|#[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|/\*M?!{1,2}[0-9]*|\*/|\()"
_MODIFIERS = rf"(?:OR{_GAP}+REPLACE{_GAP}+|IF{_GAP}+(?:NOT{_GAP}+)?EXISTS{_GAP}+)*"
_ACCOUNT = (
    rf"(?:GRANT|REVOKE|(?:CREATE|ALTER|DROP|RENAME){_GAP}+{_MODIFIERS}(?:USER|ROLE|SERVER)"
    rf"|SET{_GAP}+(?:PASSWORD|ROLE|DEFAULT{_GAP}+ROLE)|CHANGE{_GAP}+(?:MASTER|REPLICATION))\b"
)
_DEFINER = rf"DEFINER{_GAP}*=(?:`[^`]*`|'[^']*'|\"[^\"]*\"|[\w$.%@]|\(\)|{_GAP})*?"
_ROUTINE = (
    rf"(?:CREATE|ALTER){_GAP}+{_MODIFIERS}(?:{_DEFINER})?{_GAP}*(?:AGGREGATE{_GAP}+)?"
    r"(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|PACKAGE)\b"
)
# What comes before a password in any statement.
_PASSWORD = rf"(?:IDENTIFIED{_GAP}+(?:BY|VIA|WITH|AS)|PASSWORD)\b"
_IS_ACCOUNT = rf"{_ACCOUNT}|SET{_GAP}+STATEMENT\b.*\bFOR{_GAP}+{_ACCOUNT}"


def is_account_statement(text: str) -> bool:
    """True if a statement is about accounts, roles, rights or passwords: it changes neither tables nor rows."""
    return bool(_begin_with(_array_of(text), _IS_ACCOUNT)[0].as_py())


def contain_passwords(texts: pa.Array) -> pa.Array:
    """True for texts about accounts, and for routines that contain such a statement; null if there is no text."""
    return _begin_with(texts, rf"{_IS_ACCOUNT}|{_ROUTINE}.*\b{_PASSWORD}")


def contains_password(text: str) -> bool:
    """The same of one text."""
    return bool(contain_passwords(_array_of(text))[0].as_py())


def _array_of(text: str) -> pa.Array:
    # `pa.array` would import pandas, which takes longer than all else that a command does to print a first row.
    encoded = text.encode()
    return pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, len(encoded)], dtype=np.int32)), pa.py_buffer(encoded)
    )


def _begin_with(texts: pa.Array, pattern: str) -> pa.Array:
    # RE2, whose time is linear in the text, whatever is in it.
    return pc.match_substring_regex(texts, rf"(?is)^{_GAP}*(?:{pattern})")
