"""`docs/map.md`: every folder is on it, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.code_map import PAGE, page_text
from tests.docs.markdown import REPO


def test_every_folder_is_on_the_map() -> None:
    page = PAGE.read_text()
    assert page == page_text(page), "`python -m tests.docs.code_map` makes the tables"


def test_ten_questions_are_answered_by_what_is_there() -> None:
    questions = re.findall(r"^\d+\. .+?(?=^\d+\. |\Z)", PAGE.read_text().partition("## Ten questions")[2], re.M | re.S)
    assert len(questions) == 10
    for question in questions:
        names = re.findall(r"`((?:format|connector|streaming|lab)/[\w/.]+\.py)(?:: ?([\w.]+))?`", question)
        assert names, question
        for path, name in names:
            text = Path(REPO, path).read_text()
            for part in name.split(".") if name else ():
                assert re.search(rf"\b(?:def|class) {part}\b|^{part}\b", text, re.M), f"{path}: {part}"
