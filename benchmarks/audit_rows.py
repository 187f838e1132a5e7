"""How many faults of rows the audit finds: rows that are exchanged or replaced in the newest checkpoint.

    python -m benchmarks.audit_rates --first 80000 --count 60 --keep FOLDER
    python -m benchmarks.audit_rows FOLDER

Changes one matrix of the newest checkpoint of each series in FOLDER: two rows of the embedding or of any
matrix change places, or an eighth, a quarter or half of its rows become noise of their own norms.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from toposcope.core.seeding import rng
from toposcope.sources import open_series
from toposcope.sources.audit import audit
from toposcope.sources.audit_evidence import SMALL

LATEST = 8
"""How many checkpoints of a series are taken: the last ones."""
FEW = 5
"""Series with at most this many checkpoints have a table of their own: their rows have no history."""
KINDS = {"rows of the embedding exchanged": 0.0, "rows exchanged": 0.0, "1/8 of the rows replaced": 1 / 8,
         "1/4 of the rows replaced": 1 / 4, "1/2 of the rows replaced": 1 / 2}  # fmt: skip


def changed(values: np.ndarray, share: float, draw: np.random.Generator) -> np.ndarray:
    """Return a matrix with two rows exchanged, or with a share of its rows replaced by noise."""
    out = values.copy()
    if not share:
        pair = draw.choice(len(out), 2, replace=False)
        out[pair] = out[pair[::-1]]
        return out
    rows = draw.choice(len(out), int(np.ceil(share * len(out))), replace=False)
    size = np.linalg.norm(out[rows], axis=1, keepdims=True) / np.sqrt(out.shape[1])
    out[rows] = size * draw.standard_normal((len(rows), out.shape[1]))
    return out


def trials(folder: Path) -> Counter[tuple[str, bool, str]]:
    """Plant each kind in one series; count by kind, whether the series is short, and what the audit says."""
    series, draw = open_series(folder), rng(name=f"audit rows/{folder.name}")
    last = series.of_run(series.names[0])[-LATEST:]
    states = {at.step: {name: np.asarray(one) for name, one in series.tensors(at)} for at in last}
    step, newest = last[-1].step, states[last[-1].step]
    matrices = [name for name, one in newest.items() if one.ndim == 2 and one.size >= SMALL]
    embedding = next(name for name in matrices if "wte" in name or "embed" in name)
    counts: Counter[tuple[str, bool, str]] = Counter()
    for kind, share in KINDS.items() if len(last) > 1 else ():
        name = embedding if "embedding" in kind else str(draw.choice(matrices))
        hit = newest | {name: changed(newest[name], share, draw)}
        findings = [one for one in audit(open_series(states | {step: hit})) if one.tensor == name]
        faults = [one for one in findings if one.step == step and not one.is_remark]
        counts[kind, len(last) <= FEW, "found" if faults else "missed"] += 1
    return counts


def main() -> None:
    """Plant every kind in every series of a folder, and print how many are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    total = sum(map(trials, sorted(parser.parse_args().folder.iterdir())), Counter())
    print(f"| fault | 2 to {FEW} checkpoints | {FEW + 1} and more |\n| --- | --- | --- |")
    for kind in KINDS:
        cells = []
        for short in (True, False):
            found, missed = (total[kind, short, end] for end in ("found", "missed"))
            cells.append(f"{found} of {found + missed}")
        print(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
