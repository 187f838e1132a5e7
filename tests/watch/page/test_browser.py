"""The live page in a real browser: points arrive, panels open, a link is the view, an alarm appears."""

from __future__ import annotations

import re
import shutil

import pytest

pytest.importorskip("playwright", reason="no driver of a browser: pip install playwright")
from playwright.sync_api import expect, sync_playwright

from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KEY = "neural_persistence/seed004/model/neural_persistence"

expect.set_options(timeout=1000 * PATIENCE)  # the driver's own five seconds are a speed
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        options = [
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, served):
    """Open the page at a width; afterwards no error was logged and nothing elsewhere was asked for."""
    said, asked, contexts = [], [], []

    def go(path="/", width=1280):
        context = browser.new_context(viewport={"width": width, "height": 900})
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: said.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(served + path)
        expect(page.locator("body")).to_have_attribute("data-state", "live")
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []
    assert all(url.startswith((served, "data:", "blob:")) for url in asked)


def _points(page, place='[data-panel="loss"] div[data-points]'):
    return int(page.locator(place).first.get_attribute("data-points"))


def test_points_arrive_while_a_run_goes_on_and_a_new_run_appears(visit, growing):
    page = visit()
    area = page.locator('[data-panel="loss"] div[data-points]')
    before = _points(page)
    growing.losses("small-seed0", 3000)
    expect(area).to_have_attribute("data-points", str(before + 100))
    growing.losses("late", 500)
    expect(page.locator(".legend").first).to_contain_text("late")


def test_an_alarm_in_the_journal_appears_with_its_culprit(visit, growing):
    page = visit()
    expect(page.locator('[data-part="alarms"]')).to_contain_text("no alarm")
    growing.alarm("small-seed1", 1800)
    expect(page.locator("article.alarm table")).to_contain_text("layers.2.mlp.weight")
    expect(page.locator(".headline.alarm")).to_contain_text("small-seed1, step 1,800")


def test_drill_downs_open_and_a_link_restores_the_view(visit, growing):
    page = visit()
    page.keyboard.press("h")
    canvas = page.locator('[data-drill="heat"] canvas')
    expect(canvas).to_have_attribute(
        "aria-label", "neural persistence of 4 lines in small-seed0, steps 0 to 2,000, from 0 to 7.901"
    )
    growing.checkpoint("small-seed0", 2200)
    expect(page.locator('[data-drill="heat"] .panel')).to_have_attribute("data-columns", "12")
    canvas.click(position={"x": 5, "y": 5})
    curve = page.locator('[data-drill="curve"] svg[role="img"]')
    expect(curve).to_have_attribute(
        "aria-label",
        "neural persistence (layers.0.mlp.weight, by matrix): 3 curves, steps 0 to 2,200, values 0 to 7.697",
    )
    page.locator('[data-drill="diagram"] summary').click()
    slider = page.locator('[data-drill="diagram"] input[type="range"]')
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator('[data-drill="diagram"] .panel')).to_have_attribute("data-step", "1600")
    page.locator(".legend button", has_text="small-seed1").first.click()
    page.keyboard.press("t")
    page.wait_for_function("location.search.includes('theme=dark')")
    again = visit(page.url.split("/", 3)[3].join(("/", "")))
    expect(again.locator('[data-drill="diagram"] .panel')).to_have_attribute("data-step", "1600")
    expect(again.locator('[data-drill="curve"] svg[role="img"]')).to_have_attribute(
        "aria-label",
        "neural persistence (layers.0.mlp.weight, by matrix): 2 curves, steps 0 to 2,200, values 0 to 7.697",
    )  # fmt: skip
    expect(again.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_forecast_has_its_interval_its_cone_and_the_time_left(visit):
    page = visit()
    table = page.locator('[data-part="forecasts"] table')
    expect(table).to_contain_text(re.compile(r"\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]"))
    expect(table).to_contain_text("8.3 min")  # 2,000 steps of .25 s
    expect(page.locator('[data-panel="loss"]')).to_contain_text("Dashed beyond the last step: the forecast")


def test_a_heat_map_shows_one_role_and_the_link_says_which(visit):
    page = visit("/?open=heat")
    canvas = page.locator('[data-drill="heat"] canvas')
    expect(canvas).to_have_attribute("aria-label", re.compile("of 4 lines"))
    page.get_by_label("role").select_option("attention")
    expect(canvas).to_have_attribute("aria-label", re.compile("of 1 lines"))
    again = visit(page.url.split("/", 3)[3].join(("/", "")))
    expect(again.locator('[data-drill="heat"] canvas')).to_have_attribute(
        "aria-label", re.compile("of 1 lines")
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_names_of_runs_stay_text(visit, growing, width, tmp_path):
    growing.alarm("small-seed0", 1800)
    page = visit(f"/?open=curve&open=heat&open=diagram&key={KEY}", width)
    expect(page.locator('[data-drill="diagram"] .panel')).to_have_attribute("data-step", "2000")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator('img[src="x"]').count() == 0
    expect(page.locator(".legend").first).to_contain_text("<img src=x")


def test_a_panel_is_saved_as_png_svg_and_csv(visit):
    page = visit()
    heads = {"PNG": b"\x89PNG", "SVG": b"<svg", "CSV": b"run,kind,step"}
    for kind, head in heads.items():
        with page.expect_download() as caught:
            page.get_by_role("button", name=f"Save loss as {kind}").click()
        content = caught.value.path().read_bytes()
        assert content.startswith(head)
        assert len(content) > 2000
