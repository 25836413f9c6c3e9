"""The documentation as a site (`make docs`): it builds without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from pathlib import Path

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""What a browser fetches by itself, by tags and their attributes."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("material") is None:
        assert os.environ.get("CI") != "true", "the dependency group docs is not installed"
        pytest.skip("the site needs the dependency group docs (mkdocs-material)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr, built.stderr
    return folder


class Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("next", "prev", "canonical"):
            return
        if tag in LOADED and given.get(LOADED[tag]):
            self.found.append(str(given[LOADED[tag]]))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 50
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        assert len(loads.found) >= 5, page
        for target in loads.found:
            assert re.match(r"(?!//)(?![a-z]+:)", target), (page, target)
            assert (page.parent / target.split("#")[0].split("?")[0]).exists(), (page, target)
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)]*", sheet.read_text()) == [], sheet


def test_lists_and_tables_are_shown_as_such(site: Path) -> None:
    """Markdown that a repository shows as a list may be a line of a paragraph here."""
    wrong = []
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(.*?)</p>", page.read_text(), flags=re.DOTALL):
            text = re.sub(r"<code>.*?</code>", "", paragraph, flags=re.DOTALL)
            wrong += [(page.name, line) for line in text.splitlines() if re.match(r"(\* |- |\d+\. |\|)", line)]
    assert wrong == []


def test_search_finds_settings_errors_and_words(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    texts = {entry["location"].split("#")[0]: "" for entry in index["docs"]}
    for entry in index["docs"]:
        texts[entry["location"].split("#")[0]] += f"{entry['title']}\n{entry['text']}\n"
    for page, word in (
        ("errors.html", "BINLOG_TABLE.INCOMPLETE"),
        ("job-file.html", "on_partition_drop"),
        ("bench/RESULTS.html", "rows.sysbench"),
        ("index.html", "event group"),
    ):
        assert word in texts[page]


def searched(site: Path, folder: Path, words: str) -> str:
    """The page with the results of a search for *words*, in a browser without a network."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on PATH")
    page = f"file://{site}/index.html?q={quote(words)}"
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={folder}", "--timeout=280000", "--virtual-time-budget=60000", "--dump-dom", page]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("add a table", "how-to/add-a-table.html"),
        ("restart from a GTID", "how-to/restart-from-a-gtid.html"),
        ("resize", "how-to/resize.html"),
        ("guaranteed", "guarantees.html"),
        ("upgrade", "upgrade.html"),
    ],
)
def test_search_finds_the_page_first(site: Path, tmp_path: Path, words: str, page: str) -> None:
    shown = searched(site, tmp_path, words)
    links = re.findall(r'<a [^>]*class="md-search-result__link"[^>]*>', shown)
    found = [re.search(r'href="([^"?#]+)', link) for link in links]
    assert found, shown[-3000:]
    assert found[0] is not None
    assert found[0][1].endswith(page), [match and match[1] for match in found[:5]]


def test_search_works_from_a_folder_without_a_network(site: Path, tmp_path: Path) -> None:
    shown = searched(site, tmp_path, "on_partition_drop")
    assert re.search(r"search-result__meta[^<]*>\s*\d+ matching documents", shown), shown[-3000:]
