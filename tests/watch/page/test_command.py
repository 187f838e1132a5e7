"""The commands themselves in a real browser: a run trains, is killed and goes on, and the page follows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("playwright", reason="no driver of a browser: pip install playwright")
pytest.importorskip("torch", reason="training needs torch: pip install torch")
from playwright.sync_api import expect, sync_playwright

from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 1000 * PATIENCE
"""Milliseconds that a slow machine has for each thing that must appear."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt-get install chromium"),
]


def _command(*words):
    code = "from toposcope.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], env=dict(os.environ), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _train(folder):
    settings = {
        "context": 16, "batch_size": 2, "heldout_batches": 1, "checkpoint_every": 20, "warmup_steps": 20,
        "steps": 200_000,
    }  # fmt: skip
    chosen = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return _command("train", "--out", folder, "--models", "tiny-3k", "--jobs", 1, *chosen)


def _end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate()


def _points(page):
    return int(page.locator('[data-panel="loss"] div[data-points]').first.get_attribute("data-points"))


def _grows(page, above):
    limit = time.monotonic() + LIMIT / 1000
    while _points(page) <= above:
        assert time.monotonic() < limit
        page.wait_for_timeout(200)
    return _points(page)


def test_the_page_of_the_command_follows_a_run_that_is_killed_and_goes_on(tmp_path):
    said = []
    training = _train(tmp_path / "runs")
    watching = _command(
        "watch", tmp_path / "runs", "--wait", "--port", 0, "--every", 0.3, "--rest", 0.2, "--cpu-share", 1,
        "--features", "updates",
    )  # fmt: skip
    try:
        address = watching.stderr.readline().strip()
        assert address.startswith("page: http://127.0.0.1:")
        with sync_playwright() as driver:
            opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = opened.new_page()
            page.on(
                "console", lambda told: said.append(told.text) if told.type in ("error", "warning") else 0
            )
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(address.removeprefix("page: "), timeout=LIMIT)
            expect(page.locator("body")).to_have_attribute("data-state", "live", timeout=LIMIT)
            page.evaluate("window.stayed = true")
            drawn = page.locator('[data-panel="loss"] svg[role="img"]').first
            expect(drawn).to_have_attribute("aria-label", re.compile("curve"), timeout=LIMIT)
            first = _grows(page, 0)
            _grows(page, first)  # points arrive while it trains
            _end(training)
            page.wait_for_timeout(3000)  # what it left is taken in
            stopped = _points(page)
            training = _train(tmp_path / "runs")
            _grows(page, stopped)  # and it goes on
            assert page.evaluate("window.stayed")  # the page was never loaded anew
            opened.close()
    finally:
        _end(training)
        _end(watching)
    assert said == []
