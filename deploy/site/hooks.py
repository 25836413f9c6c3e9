"""What MkDocs does not do by itself: pages from elsewhere in the repository, and links out of `docs`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPO = Path(__file__).resolve().parents[2]
DOCS = "docs"
FROM_THE_REPOSITORY = ("CHANGELOG.md", "bench/RESULTS.md", "conf/demo.toml", "conf/shop.toml")
"""What pages link to and readers want to see."""
RARELY_LOOKED_FOR = ("decisions/", "how-to/develop/", "formats/", "map", *FROM_THE_REPOSITORY)
"""Pages that search shows after others with the same words."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")
_titles: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out `decisions/*` and `*` (pages that have no place) in the navigation; take titles from it."""
    pages = sorted(str(page.relative_to(REPO / DOCS)) for page in (REPO / DOCS).rglob("*.md"))
    decisions = [page for page in pages if page.startswith("decisions/")]
    placed = {*decisions, *_pages_of(config.nav)}
    others = [page for page in pages if page not in placed]
    config.nav = _written_out(config.nav, {"decisions/*": decisions, "*": others})
    _titles.update(_pages_of(config.nav))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from elsewhere in the repository."""
    for name in FROM_THE_REPOSITORY:
        files.append(File.generated(config, name, abs_src_path=str(REPO / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the site become links within it, with titles for names; of other files the name stays."""
    del config  # MkDocs passes it by name
    source = page.file.src_uri
    if source.startswith(RARELY_LOOKED_FOR):
        page.meta["search"] = {"boost": 0.2}
    place = source if source in FROM_THE_REPOSITORY else f"{DOCS}/{source}"

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        there = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        in_site = there.removeprefix(f"{DOCS}/")
        if files.get_file_from_path(in_site) is None:
            return match[0] if there != in_site else text  # MkDocs names what is missing in `docs`
        if text.endswith(".md"):
            text = _titles.get(in_site) or text
        return f"[{text}]({posixpath.relpath(in_site, posixpath.dirname(source) or '.')}{anchor})"

    return LINK.sub(replaced, markdown)


def _pages_of(nav: object, title: str = "") -> dict[str, str]:
    """Titles that pages have in the navigation, by their names."""
    if isinstance(nav, list):
        return {name: found for item in nav for name, found in _pages_of(item).items()}
    if isinstance(nav, dict):
        return {name: found for key, item in nav.items() for name, found in _pages_of(item, key).items()}
    return {str(nav): title}


def _written_out(nav: object, patterns: dict[str, list[str]]) -> object:
    if isinstance(nav, list):
        parts = (patterns[item] if str(item) in patterns else [_written_out(item, patterns)] for item in nav)
        return [one for part in parts for one in part]
    if isinstance(nav, dict):
        return {title: _written_out(item, patterns) for title, item in nav.items()}
    return nav
