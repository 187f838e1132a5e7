"""How often a restart is called bad: small models, restarted well and badly, by rows trained twice.

    python -m benchmarks.restarts [--runs 12] [--first 5000] [--json FILE] [--marked]

A model of one layer learns a Markov chain with AdamW, a warm-up and a cosine. It is saved at a random step,
trained on, and restarted from there. The same rows are written to a log as a trainer writes them, and the log
is read by `check`'s rules. The seeds from 5000 on were not looked at while the rule was written. With
--marked no step is trained twice: the log says where it was resumed, and is judged some rows after that.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from toposcope.logs import read_log
from toposcope.rules.registry import assess

STEPS, WIDTH, WORDS, LENGTH, BATCH = 400, 24, 32, 24, 8
OVERLAPS = (5, 10, 20, 50, 100, 200)
AFTER = (21, 101)
"""Rows after a marked restart."""
HEALTHY = ("resumed", "other batches", "means of five rows")
BAD = ("lost moments", "schedule again", "batches again", "older weights", "weights of 8 bits")
Row = dict[str, float]


@dataclass
class Training:
    """A model in training, and what a checkpoint keeps of it."""

    seed: int
    peak: float
    model: nn.Module = field(init=False)
    optimiser: torch.optim.AdamW = field(init=False)
    step: int = 0
    place: int = 0
    batches: int = 0
    shift: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(),
                                   nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WORDS))  # fmt: skip
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=self.peak)
        chain = np.random.default_rng(self.seed).dirichlet(np.full(WORDS, 0.2), WORDS)
        self._chain = torch.as_tensor(chain, dtype=torch.float32)

    def batch(self) -> Tensor:
        """Return the next batch: it depends on the seed of the order and on the place in it."""
        draw = torch.Generator().manual_seed(1_000_003 * (self.seed + self.batches) + self.place)
        self.place += 1
        words = torch.randint(0, WORDS, (BATCH, 1), generator=draw)
        for _ in range(LENGTH):
            following = torch.multinomial(self._chain[words[:, -1]], 1, generator=draw)
            words = torch.cat([words, following], 1)
        return words

    def rate(self) -> float:
        """Return the learning rate of the next step."""
        at = self.step - self.shift
        return self.peak * min((at + 1) / 40, 0.5 + 0.5 * float(np.cos(np.pi * at / STEPS)))

    def go(self) -> Row:
        """Train one step and return its row."""
        rate, words = self.rate(), self.batch()
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = nn.functional.cross_entropy(
            self.model(words[:, :-1]).reshape(-1, WORDS), words[:, 1:].reshape(-1)
        )
        self.optimiser.zero_grad()
        loss.backward()
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        self.optimiser.step()
        self.step += 1
        return {"step": self.step, "loss": loss.item(), "learning_rate": rate, "grad_norm": norm}


def restarted(saved: Training, older: Training, kind: str) -> Training:
    """Return what a restart of a kind loads."""
    again = copy.deepcopy(saved)
    if kind == "lost moments":
        again.optimiser = torch.optim.AdamW(again.model.parameters(), lr=again.peak)
    elif kind == "schedule again":
        again.shift = again.step
    elif kind == "batches again":
        again.place = 0
    elif kind == "older weights":
        again.model.load_state_dict(older.model.state_dict())
    elif kind == "weights of 8 bits":
        for weight in again.model.parameters():
            unit = weight.detach().abs().max() / 8
            weight.data = torch.round(weight.data / unit) * unit
    elif kind == "other batches":
        again.batches = 77
    return again


def rows_of(seed: int, kind: str, overlap: int, earliest: int = 60) -> tuple[list[Row], int]:
    """Return the rows of a log with a restart, and the first step after it."""
    draw = np.random.default_rng(seed)
    last = STEPS - (overlap + 20 if overlap else max(AFTER))
    at = int(draw.integers(earliest, last))
    training = Training(seed, float(10 ** draw.uniform(-2.5, -1.5)))
    rows, saved, older = [], training, training
    for _ in range(at + overlap):
        if training.step == at // 2:
            older = copy.deepcopy(training)
        if training.step == at:
            saved = copy.deepcopy(training)
        rows.append(training.go())
    again = restarted(saved, older, kind)
    rows += [again.go() for _ in range(STEPS - at)]
    return rows, at + 1


def means(rows: list[Row], count: int = 5) -> list[Row]:
    """Return rows as a trainer logs them that writes the mean of its last few losses."""
    loss = [row["loss"] for row in rows]
    return [row | {"loss": float(np.mean(loss[max(i - count + 1, 0) : i + 1]))} for i, row in enumerate(rows)]


def said(rows: list[Row], folder: Path) -> list[tuple[str, str]]:
    """Return the level and the sentence of each remark about a restart, as a log of the rows gives them."""
    log = folder / "train.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)))
    run = read_log(log).runs[0]
    remarks = assess(run.table, horizon=STEPS, replaced=run.replaced)
    return [(one.level, one.sentence) for one in remarks if one.kind == "restart"]


def measured(kind: str, overlap: int, seeds: range, spoken: Callable[[str], None]) -> dict[str, object]:
    """Return how many restarts of a kind were called for a look, and how many at all."""
    looks = told = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            rows, _ = rows_of(seed, kind, overlap)
            answers = said(means(rows) if kind == "means of five rows" else rows, Path(folder))
            looks += any(level != "noticed" for level, _ in answers)
            told += bool(answers)
        spoken(f"{kind:20} {overlap:4}  look {looks:3} of {len(seeds)}  compared {told:3}  {answers[-1:]}")
    return {"kind": kind, "overlap": overlap, "looks": looks, "compared": told, "runs": len(seeds)}


def measured_marked(kind: str, seeds: range, spoken: Callable[[str], None]) -> list[dict[str, object]]:
    """Return what `measured` does of restarts without an overlap, for each number of rows after them."""
    looks, told = dict.fromkeys(AFTER, 0), dict.fromkeys(AFTER, 0)
    for seed in seeds:
        rows, first = rows_of(seed, kind, 0, earliest=STEPS // 2)
        rows = means(rows) if kind == "means of five rows" else rows
        for after in AFTER:
            table = pd.DataFrame(rows[: first - 1 + after])
            remarks = assess(table, horizon=STEPS, restarts=(float(first),))
            levels = [one.level for one in remarks if one.kind == "restart"]
            looks[after] += any(level != "noticed" for level in levels)
            told[after] += bool(levels)
    for after in AFTER:
        spoken(f"{kind:20} {after:4}  look {looks[after]:3} of {len(seeds)}  compared {told[after]:3}")
    return [
        {"kind": kind, "after": n, "looks": looks[n], "compared": told[n], "runs": len(seeds)} for n in AFTER
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--marked", action="store_true", help="No step is trained twice.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(given.first, given.first + given.runs)
    kinds = (*HEALTHY, *BAD)
    if given.marked:
        table = [row for kind in kinds for row in measured_marked(kind, seeds, print)]
    else:
        table = [measured(kind, n, seeds, print) for kind in kinds for n in OVERLAPS]
    if given.json:
        given.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
