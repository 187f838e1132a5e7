"""The live page of many runs in a real browser: first paint, smoothness, points that are sent.

    python -m benchmarks.live_browser [--runs 20] [--checkpoints 1000] [--layers 100]

Writes a synthetic store to the disk (--keep saves it for the next time), serves it as `toposcope watch
--port` does, and opens it in headless Chromium. It records frames for ten seconds: the reader moves over the
curves, a heat map and a measure are open, and a checkpoint arrives every second.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import Page, sync_playwright

from benchmarks.large_page import STEP, long_rows, metrics
from toposcope.core.types import Role, Row, RunRecord, Scope
from toposcope.store import Result, Store, Unit
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch.page.serve import beside

KEY = "neural_persistence/seed004/model/neural_persistence"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FRAMES = """() => new Promise((done) => {
  const seen = [], end = performance.now() + 10000, area = document.querySelector('[data-panel="loss"] svg');
  const box = area.getBoundingClientRect();
  let last = performance.now();
  const next = (now) => {
    seen.push(now - last); last = now;
    const x = box.left + box.width * (0.1 + 0.8 * ((now / 3000) % 1));
    area.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: box.top + 99, bubbles: true}));
    if (now < end) requestAnimationFrame(next); else done(seen);
  };
  requestAnimationFrame(next);
})"""


def results(rows: pd.DataFrame) -> list[Result]:
    """Return rows of one run as the store takes them."""
    made = []
    for (step, probe), part in rows.groupby(["step", "probe"], sort=True):
        run = part["run"].iloc[0]
        columns = ("filtration", "name", "scope", "feature", "value", "role", "layer")
        told = tuple(
            Row(
                run, step, probe, feature, value, filtration=filtration, name=name, scope=Scope(scope),
                role=Role.MLP if role == "mlp" else None, layer=None if np.isnan(layer) else int(layer),
            )
            for filtration, name, scope, feature, value, role, layer in zip(
                *(part[column] for column in columns), strict=True
            )
        )  # fmt: skip
        made.append(Result(Unit(run, int(step), str(probe), 1, f"{run}{step}"), told, ()))
    return made


def written(place: Path, runs: int, checkpoints: int, layers: int) -> Store:
    """Return the store, written where it is not there yet."""
    if place.exists():
        return Store.open(place)
    store = Store.create(place, recipe={})
    rows = long_rows(runs, checkpoints, layers)
    names = list(dict.fromkeys(rows["run"]))
    config = {"steps": 2 * checkpoints * STEP}
    known = [
        RunRecord(
            name, family="gpt", parameters=10_000 * 4 ** int(name[4]), seed=int(name[-1]), config=config
        )
        for name in names
    ]
    store.write_runs(known)
    for probe in weight_probes(["neural_persistence", "rips", "baselines"], WeightOptions()):
        store.write_catalogue(probe.name, probe.features)
    for name in names:
        for _, part in rows[rows["run"] == name].groupby("probe"):
            store.write_results(results(part), keep_diagrams=False)
    losses = metrics(pd.DataFrame({"run": names}), checkpoints)
    store.write_metrics(losses.assign(seconds=0.25 * losses["step"]))
    store.compact()
    return store


def measured(page: Page, address: str) -> None:
    """Print what the browser saw of the first paint."""
    began = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    print(f"the server's first paint: {time.perf_counter() - began:.2f} s, {size / 1e3:.0f} kB")
    page.goto(address)
    page.wait_for_selector('body[data-state="live"]')
    seen = page.evaluate(
        "() => [performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]"
    )
    print(f"the browser's first paint: {seen[0] / 1e3:.2f} s; live with all curves: {seen[1] / 1e3:.2f} s")


def main() -> None:
    """Write, serve, open, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("runs", 20), ("checkpoints", 1000), ("layers", 100)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--shots", type=Path)
    given = parser.parse_args()
    place = given.keep or Path(tempfile.mkdtemp()) / "store"
    store = written(place, given.runs, given.checkpoints, given.layers)
    chromium = next(filter(None, map(shutil.which, CHROMIUM)))
    with beside(place, 0) as address, sync_playwright() as driver:
        began = time.perf_counter()
        while b"being read" in urllib.request.urlopen(f"{address}fragment/answer").read():
            time.sleep(0.1)
        print(f"the store is read after {time.perf_counter() - began:.1f} s")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        measured(page, address)
        page.goto(f"{address}?open=curve&open=heat&key={KEY}")
        page.wait_for_selector('[data-drill="heat"] canvas')
        print("frames: " + frames(page, store, given.checkpoints))
        if given.shots:
            given.shots.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=given.shots / "large.png", full_page=True)
        browser.close()


def frames(page: Page, store: Store, checkpoints: int) -> str:
    """Return how long frames took while points came."""
    asked: list[int] = []
    page.on("response", lambda answer: asked.append(1) if "/panel/" in answer.url else None)
    run = str(store.runs()["run"].iloc[0])
    page.evaluate(f"() => {{ window.frames_seen = ({FRAMES})(); }}")
    for n in range(10):
        step = (checkpoints + n) * STEP
        np_ = "neural_persistence"
        row = Row(run, step, np_, np_, 9.0 + n, filtration="seed004", name="model")
        store.write(Unit(run, step, np_, 1, f"{run}{step}"), [row])
        page.wait_for_timeout(1000)
    seen = np.array(page.evaluate("() => window.frames_seen"))[1:]
    return (
        f"{len(seen)} in 10 s, median {np.median(seen):.0f} ms, 99% {np.quantile(seen, 0.99):.0f} ms, "
        f"longest {seen.max():.0f} ms; {len(asked)} panels asked for anew"
    )


if __name__ == "__main__":
    main()
