"""The page of a job in a real browser: what people see, on a screen and on a phone, by day and by night.

`STATUS_SCREENSHOTS=DIR` keeps pictures of what was seen.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlog_streaming.status.model import PurgeRisk, PurgeStatus, TableStatus
from tests.streaming.status.states import DAY, HOSTILE, Shown, batch, error, log, served, state, trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from selenium.webdriver import Chrome

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("selenium")

pytestmark = pytest.mark.server

WAIT_S = 300
TOKEN = "correct horse battery staple"
SCREENS = {"desktop": (1400, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
READABLE = 4.5
"""The least contrast of text, as WCAG asks for."""

CONTRASTS = """
const luminance = (color) => {
  const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = color.map((part) => linear(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const background = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const color = parts(getComputedStyle(one).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("main *, header *, footer *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || element.closest("svg") || element.offsetParent === null) continue;
  const [one, other] = [parts(getComputedStyle(element).color).slice(0, 3), background(element)].map(luminance);
  found.push([(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), element.textContent.slice(0, 40)]);
}
return found;
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """Headless Chromium; without it the tests skip, but fail in CI."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    programs = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    chromium, driver = programs
    if chromium is None or driver is None:
        reason = "chromium and chromedriver are not on PATH: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.set_page_load_timeout(WAIT_S)
    chrome.set_script_timeout(WAIT_S)
    yield chrome
    chrome.quit()


def look(browser: Chrome, url: str, screen: str = "desktop", theme: str = "light") -> None:
    """Open the page, and wait until it shows the job."""
    width, height = SCREENS[screen]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": screen == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preference = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    browser.get("about:blank")
    complaints(browser)  # about pages before
    browser.get(url)
    wait_for(browser, lambda: text_of(browser, "link").startswith("live"))


def wait_for(browser: Chrome, condition: Callable[[], bool]) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, WAIT_S, poll_frequency=0.1).until(lambda _: condition())


def text_of(browser: Chrome, element_id: str) -> str:
    return str(run(browser, f"return document.getElementById({element_id!r}).innerText"))


def run(browser: Chrome, script: str) -> Any:
    return browser.execute_script(script)


def complaints(browser: Chrome) -> list[str]:
    """What the browser has to say: scripts that failed, what the content policy has kept out."""
    entries: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries]


def keep_picture(browser: Chrome, name: str) -> None:
    folder = os.environ.get("STATUS_SCREENSHOTS")
    if folder is not None:
        width = run(browser, "return document.documentElement.clientWidth")
        height = min(run(browser, "return document.documentElement.scrollHeight"), 4000)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(f"{folder}/{name}.png")


def troubled() -> Shown:
    gap = PurgeStatus(PurgeRisk.TIMED, "binlog-000003.ibb", DAY / 2, 4 * DAY)
    batches = tuple(batch(n, lag=900.0 - n * 10, ago=2.0 * (50 - n)) for n in range(1, 51))
    job = state(tables=(*state().tables, *trouble()), errors=(error(),), batches=batches)
    return Shown(job, log(waiting_seconds=7_500.0, transactions=120_000, size=1_200_000_000, purge=gap))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("screen", SCREENS)
def test_page_is_readable(browser: Chrome, screen: str, theme: str, tmp_path: Path) -> None:
    with served(tmp_path, troubled()) as url:
        look(browser, url, screen, theme)
        width = SCREENS[screen][0]
        assert run(browser, "return document.documentElement.scrollWidth") <= width, "nothing hangs over the edge"
        contrasts = run(browser, CONTRASTS)
        assert len(contrasts) > 100
        assert [found for found in contrasts if found[0] < READABLE] == []
        is_dark = run(browser, "return getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 28)"
        assert is_dark == (theme == "dark")
        assert complaints(browser) == []
        keep_picture(browser, f"trouble-{theme}-{screen}")


def test_all_that_is_known_is_shown(browser: Chrome, tmp_path: Path) -> None:
    with served(tmp_path, troubled()) as url:
        look(browser, url)
        page = run(browser, "return document.body.innerText")
        for part in (
            "Catching up, 2 h 5 min behind the server (120,000 transactions, 1.2 GB)",
            "only 12 h until the server may remove what the job needs; 1 table set aside",
            "raise binlog_expire_logs_seconds", "shop.events", "set aside", "the log lacks the values of the new",
            "waits for its snapshot", "1,250,000", "0-1-4800", "0-1-4901 to 0-1-5000", "71,234 changes in all",
            "no space left", "Make room", "verified", "through 0-1-4000",
            "6 min 40 s in the log, 0.1 s read, 0.3 s written",
        ):  # fmt: skip
            assert part in page, part
        assert browser.title == "shop: danger, binlog-stream"
        assert run(browser, "return document.querySelectorAll('#batches tr').length") == 50
        assert run(browser, "return document.querySelectorAll('#changes-chart rect').length") >= 59
        filter_box = "const box = document.getElementById('filter'); box.value = 'ITEMS';"
        run(browser, f"{filter_box} box.dispatchEvent(new Event('input'))")
        assert run(browser, "return document.querySelectorAll('#tables tr').length") == 1


def test_hostile_names_are_text(browser: Chrome, tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>\"'><b>"
    tables = (
        TableStatus(name=HOSTILE, targets=(HOSTILE,), modes=(markup,), gtid=HOSTILE, set_aside=HOSTILE + markup),
        TableStatus(name=markup, gtid="x" * 3_000, targets=("y" * 3_000,), modes=("mirror",)),
        TableStatus(name="__proto__"),
        TableStatus(name="javascript:alert(1)"),
    )
    job = state(
        name=HOSTILE, source=markup, target=HOSTILE, gtid=markup, tables=tables, errors=(error(HOSTILE + markup),)
    )
    with served(tmp_path, Shown(job, log())) as url:
        look(browser, url, "phone")
        assert run(browser, "return document.querySelectorAll('script').length") == 1
        assert run(browser, "return document.querySelectorAll('img, b, iframe, form').length") == 0
        page = run(browser, "return document.body.textContent")
        assert "<script>alert(1)</script>" in page
        assert markup in page
        assert "\\u202egnirts\\u2066" in page
        assert not set(page) & set("\u202e\u2066\x00\x1b")
        assert run(browser, "return document.querySelectorAll('#tables tr').length") == len(tables)
        assert run(browser, "return document.documentElement.scrollWidth") <= SCREENS["phone"][0]
        assert complaints(browser) == []
        keep_picture(browser, "hostile-light-phone")


def test_news_come_by_themselves_and_a_job_that_ended_is_seen(browser: Chrome, tmp_path: Path) -> None:
    shown = Shown(state(), log())
    with served(tmp_path, shown) as url:
        look(browser, url)
        assert text_of(browser, "verdict-text").startswith("Current, the last change came 1.2 s after its commit")
        shown.state = state(batches=(batch(77),), batches_total=77)
        wait_for(browser, lambda: "77 in all" in text_of(browser, "batches-count"))
        assert text_of(browser, "purge").startswith("3 d ")
    wait_for(browser, lambda: text_of(browser, "link").startswith("no connection to the job; as of "))


def test_a_token_opens_the_page(browser: Chrome, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    with served(tmp_path, Shown(state(), log()), TOKEN) as url:
        browser.get(url)
        browser.find_element(By.ID, "token").send_keys(TOKEN)
        browser.find_element(By.TAG_NAME, "button").click()
        wait_for(browser, lambda: browser.find_elements(By.ID, "link") != [])
        wait_for(browser, lambda: text_of(browser, "link").startswith("live"))
        assert TOKEN not in browser.current_url


def test_a_quiet_page_in_good_order(browser: Chrome, tmp_path: Path) -> None:
    """Nothing to warn of: no section for errors and snapshots, and one colour."""
    with served(tmp_path, Shown(state(), log())) as url:
        for theme in THEMES:
            for screen in SCREENS:
                look(browser, url, screen, theme)
                assert run(browser, "return document.getElementById('errors-section').hidden")
                assert run(browser, "return document.getElementById('snapshots-section').hidden")
                assert run(browser, "return document.getElementById('verdict').dataset.level") == "ok"
                keep_picture(browser, f"quiet-{theme}-{screen}")


def test_the_file_is_drawn_when_it_is_asked_for(browser: Chrome, tmp_path: Path) -> None:
    from binlog_connector.following.log_end import end_of_log
    from binlog_connector.following.watched import WatchedLog
    from binlog_streaming.status.page.serving import serving
    from binlog_streaming.status.recorder import StatusRecorder
    from tests.connector.shop import Shop
    from tests.streaming.test_job_check import job_for

    shop = Shop(tmp_path / "log")
    shop.sell(2_000)
    with WatchedLog(str(shop.directory)) as watched:
        offset = end_of_log(watched)
    with (
        StatusRecorder(job_for(tmp_path, log=shop.directory)) as recorder,
        serving("127.0.0.1:0", None, recorder) as url,
    ):
        recorder.goes_on_at(offset)
        recorder.started()
        look(browser, url)
        run(browser, "document.querySelector('#map summary').click()")
        wait_for(browser, lambda: int(run(browser, "return document.querySelectorAll('#map-cells rect').length")) > 60)
        assert "commit records" in text_of(browser, "map-legend")
        assert "binlog-" in text_of(browser, "map-note")
        assert complaints(browser) == []
        keep_picture(browser, "map-light-desktop")
