"""The curves of a figure answer to a pointer and to the keyboard; without scripts the page is whole."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.core.drawing.loss_curves import draw
from toposcope.core.drawing.rendering import render, traced

STEP = np.arange(1, 241)


def losses(spike: float = 0.0) -> pd.DataFrame:
    parts = []
    for seed, run in enumerate(("a-seed1", "b-seed2")):
        noise = 0.02 * np.random.default_rng(seed).standard_normal(len(STEP))
        parts.append(pd.DataFrame({"run": run, "step": STEP, "loss": 2 + 3 * STEP**-0.5 + noise}))
    parts[0].loc[120, "loss"] += spike
    return pd.concat(parts, ignore_index=True)


def drawn(table: pd.DataFrame):  # type: ignore[no-untyped-def]
    runs = pd.DataFrame({"run": ["a-seed1", "b-seed2"], "family": "", "parameters": [100, 200]})
    return draw(table.assign(heldout_loss=np.nan), runs)


def test_a_rendered_figure_has_its_curves_with_the_place_of_each_point() -> None:
    figure = drawn(losses())
    curves = {one.name: one for one in render(figure).curves}
    assert list(curves) == ["a-seed1, training", "b-seed2, training"]
    points = np.array(curves["a-seed1, training"].points)
    assert ((points[:, :2] > 0) & (points[:, :2] < 1)).all()
    assert (np.diff(points[:, 0]) > 0).all()
    assert (np.diff(points[:, 2]) > 0).all()
    higher = points[:, 3] > points[:, 3].mean()
    assert points[higher, 1].max() < points[~higher, 1].min() + 0.1, "a larger value is nearer to the top"


def test_a_figure_without_named_curves_has_none() -> None:
    assert traced(drawn(losses().iloc[:0])) == ()


@pytest.mark.parametrize(("spike", "clipped"), [(0.0, False), (0.5, False), (60.0, True)])
def test_a_spike_that_wastes_the_axis_is_clipped_and_labelled(spike: float, clipped: bool) -> None:
    (ax,) = drawn(losses(spike)).axes
    labels = [text.get_text() for text in ax.texts if text.get_gid() == "clipped"]
    assert ax.get_ylim()[1] < 10
    assert bool(labels) is clipped
    assert not clipped or labels[0].startswith("\u2191 62")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pointer")
    return ts.report(losses(), place / "report").page


def test_the_page_holds_the_curves_and_the_script(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    (data, *_) = re.findall(r'<script type="application/json" class="curves">(.*?)</script>', text)
    name, colour, flat = json.loads(data)[0]
    assert name.startswith("a-seed1")
    assert re.fullmatch("#[0-9a-f]{6}", colour)
    assert len(flat) % 4 == 0
    assert "http" not in re.sub(r"http://www.w3.org/\S*", "", text.split("<script>")[-1])


@pytest.mark.slow
@pytest.mark.browser
def test_pointer_and_keyboard_say_the_nearest_point(written: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(written.as_uri())
        box = page.locator("figure .pointed img").first.bounding_box()
        assert box is not None
        frame = page.locator("figure .pointed").first
        assert frame.evaluate("one => one.scrollHeight <= one.clientHeight"), "its layer makes it scroll"
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.6 * box["height"])
        page.locator(".names button").first.focus()
        page.keyboard.press("ArrowLeft")
        said = page.locator(".names output").first.inner_text()
        assert re.fullmatch(r"a-seed1, training: [\d.]+ at step [\d,.]+", said)
        page.keyboard.press("Escape")
        assert page.locator(".names output").first.inner_text() == ""
        assert errors == []
        browser.close()
