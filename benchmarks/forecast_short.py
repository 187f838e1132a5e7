"""How often the interval of a short run holds: python -m benchmarks.forecast_short [--csv FILE] [--runs 12].

transformers' Trainer trains tiny healthy models on texts that do not repeat, by linear and cosine decays and
at a constant rate. Half of each run is kept as a user's folder would be in the middle of a run, and `check`
forecasts the end. A row of the table is a length in steps: how many of the runs got an interval, in how many
it contained the mean of the last five losses, and the median error in %.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from transformers import Trainer, TrainingArguments

import toposcope as ts
from tests.trainers.folders import gpt2, sentences

LENGTHS = (120, 240, 500, 1000, 2000)
SCHEDULES = ("linear", "cosine", "constant")
RATES = (3e-3, 1e-3)
LAST = 5


def halves(length: int, runs: int) -> Iterator[tuple[float, float, float, float]]:
    """Yield the loss at the end of each run, then the forecast from its first half with its interval."""
    texts = [{"input_ids": row, "labels": row} for row in sentences(8 * length, name="short runs")]
    with tempfile.TemporaryDirectory() as place:
        for seed in range(runs):
            folder = Path(place) / f"run{seed}"
            settings = TrainingArguments(
                output_dir=str(folder), max_steps=length, save_steps=length // 2, logging_steps=2,
                learning_rate=RATES[seed // 3 % 2], lr_scheduler_type=SCHEDULES[seed % 3], seed=seed,
                per_device_train_batch_size=8, report_to=[], disable_tqdm=True, use_cpu=True,
            )  # fmt: skip
            with contextlib.redirect_stdout(io.StringIO()):
                Trainer(model=gpt2(seed), args=settings, train_dataset=texts).train()
            state = json.loads((folder / f"checkpoint-{length}" / "trainer_state.json").read_text())
            losses = [row["loss"] for row in state["log_history"] if "loss" in row]
            shutil.rmtree(folder / f"checkpoint-{length}")
            end = ts.check(folder).runs[0].to_dict()["forecast"]
            assert isinstance(end, dict)
            low, high = (float("nan") if end[key] is None else float(end[key]) for key in ("low", "high"))
            yield float(np.mean(losses[-LAST:])), float(end["final_loss"]), low, high


def row(length: int, runs: int) -> dict[str, object]:
    """Return a line of the table."""
    end, final, low, high = np.array(list(halves(length, runs))).T
    bounded = np.isfinite(low)
    held = int(((low <= end) & (end <= high))[bounded].sum())
    share = binomtest(held, int(bounded.sum())).proportion_ci(method="wilson")
    return {
        "steps": length, "runs": runs, "with an interval": int(bounded.sum()), "contained the end": held,
        "95%": f"[{share.low:.2f}, {share.high:.2f}]",
        "median error, %": f"{100 * np.median(np.abs(final / end - 1)):.1f}",
        "too high": int((final > end).sum()),
    }  # fmt: skip


def main() -> None:
    """Print the table as it grows; write it as CSV on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--runs", type=int, default=12, help="runs of each length (12)")
    options = parser.parse_args()
    rows = []
    for length in LENGTHS:
        rows.append(row(length, options.runs))
        print(rows[-1], flush=True)
    if options.csv is not None:
        pd.DataFrame(rows).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
