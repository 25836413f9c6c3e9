"""The comparison of names by servers: `folded_name`, `folded_names`, `folds_table_names`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import ucd_3_2_0 as unicode_3_2

if TYPE_CHECKING:
    from collections.abc import Iterable

_KNOWN_NAMES = 1 << 14
_NEW_IN_UNICODE_3_2 = frozenset("ȠϘϴҊӅӉӍԀԂԄԆԈԊԌԎ")  # or in 3.1


@lru_cache(_KNOWN_NAMES)
def folded_name(name: str) -> str:
    """The name in small letters: servers compare columns by it, and store it for tables where they fold names.

    Servers fold letter by letter, those of Unicode 3.0: `maße` and `masse` are two columns, so are a Greek sigma and a
    final one, which `casefold` takes for one column, and at the end of a word capital sigma becomes an ordinary one,
    which `lower` makes final.

    Measured for every letter that a name may have, on MySQL 5.6 to 9.7 and MariaDB 10.1 to 11.8. Names of tables are
    folded so by all, names of columns with two differences: MariaDB 10.11 and newer keep the signs of Kelvin,
    Ångström and Ohm and the dotted `İ` apart from their small letters; 11.8 compares the capitals of a newer Unicode,
    where a final sigma is a sigma.
    """
    return name.lower() if name.isascii() else "".join(map(_folded_letter, name))


def folded_names(names: Iterable[str]) -> frozenset[str]:
    """The names as `folded_name` gives them."""
    return frozenset(map(folded_name, names))


def folds_table_names(lower_case_table_names: int | None) -> bool | None:
    """True if a server takes names of tables in upper and lower case for the same, by this variable; None: not set."""
    return None if lower_case_table_names is None else lower_case_table_names != 0


def _folded_letter(letter: str) -> str:
    small = letter.lower() if letter != "İ" else "i"
    is_new = letter in _NEW_IN_UNICODE_3_2 or "Cn" in (unicode_3_2.category(letter), unicode_3_2.category(small))
    return letter if is_new else small
