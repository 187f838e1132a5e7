"""The moving picture of the live page in the README: a run of three layers, and a fault at step 260.

    python -m benchmarks.live_picture [--out docs/images/live.webp]

Writes checkpoints and a log as a trainer would, runs a watch after each stretch, and takes screenshots of its
page in headless Chromium. Half a minute on two cores.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright
from safetensors.numpy import save_file

from toposcope.watch.losses import LossFile
from toposcope.watch.page.serve import beside
from toposcope.watch.watching import Watching, WatchOptions

FAULT, LAST, EVERY = 260, 360, 20
SHOWN = (120, 240, 260, 300, 360)
"""Steps after which the page is photographed."""
WIDTH, HEIGHT = 980, 860
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Trainer:
    """Writes what a trainer writes: a checkpoint every `EVERY` steps, and a log line for every step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "run", folder / "log.csv"
        self.folder.mkdir()
        self.log.write_text("step,loss,learning_rate\n")
        self._chance = np.random.default_rng(0)
        self._weights = {f"layers.{n}.mlp.fc1.weight": self._chance.normal(size=(48, 32)) for n in range(3)}

    def go_on(self, first: int, last: int) -> None:
        """Train from one step to another, the last one included."""
        with self.log.open("a") as log:
            for step in range(first, last + 1):
                high = 2.4 * np.exp(-(step - FAULT) / 25) if step >= FAULT else 0.0
                loss = 2 + 4 * (step + 3) ** -0.5 + high + 0.02 * self._chance.normal()
                log.write(f"{step},{loss:.4f},0.001\n")
                if step == FAULT:
                    self._weights["layers.1.mlp.fc1.weight"] *= 2.5
                if step % EVERY == 0:
                    self._save(step)

    def _save(self, step: int) -> None:
        self._weights = {
            name: w + 0.02 * self._chance.normal(size=w.shape) for name, w in self._weights.items()
        }
        values = {name: w.astype("float32") for name, w in self._weights.items()}
        save_file(values, self.folder / f"step_{step:06d}.safetensors")


def frames(folder: Path) -> list[Image.Image]:
    """Return a photograph of the page for each step of `SHOWN`."""
    trainer, taken, first = Trainer(folder), [], SHOWN[0] + 1
    trainer.go_on(0, SHOWN[0])
    options = WatchOptions(out=folder / "my-run-watch", rest=0.0, losses=LossFile(trainer.log))
    program = next(path for name in CHROMIUM if (path := shutil.which(name)))
    with sync_playwright() as driver, Watching(trainer.folder, options) as watching:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for last in SHOWN:
            trainer.go_on(first, last)
            watching.once()
            with beside(folder / "my-run-watch", 0) as address:
                page.goto(address)
                page.wait_for_timeout(4000)  # the answer is computed beside the page
                shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                taken.append(shot.resize((WIDTH * 4 // 5, HEIGHT * 4 // 5)))
            first = last + 1
        browser.close()
    return taken


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/live.webp"))
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as place:
        taken = frames(Path(place))
    last = [1600] * (len(taken) - 1) + [4000]
    taken[0].save(out, save_all=True, append_images=taken[1:], duration=last, loop=0, quality=70, method=6)


if __name__ == "__main__":
    main()
