"""Names are compared as servers do it."""

from __future__ import annotations

import pytest

from binlog_format.names import folded_name


@pytest.mark.parametrize(
    ("name", "small"),
    [("Id", "id"), ("ÉTÉ", "été"), ("ЯЖ", "яж"), ("ΜΑΣ", "μασ"), ("İZMİR", "izmir"), ("Ƀ", "Ƀ"), ("Ҋ", "Ҋ")],
)
def test_letters_become_small_one_by_one(name: str, small: str) -> None:
    assert folded_name(name) == folded_name(small) == small


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("maße", "masse"),
        ("\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"),
        ("\N{LATIN SMALL LETTER LONG S}", "s"),
        ("ﬁ", "fi"),
        ("STRAẞE", "straße"),
    ],
)
def test_names_that_a_table_may_have_beside_each_other_differ(name: str, other: str) -> None:
    assert folded_name(name) != folded_name(other)
