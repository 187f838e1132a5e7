"""One test of a feature over several runs: the products of innovations, added checkpoint by checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.statistics.trends.innovations import LEAST_LENGTH, pair_innovations
from toposcope.statistics.trends.joint import RunInnovations, joint_test
from toposcope.statistics.trends.refusals import TOO_FEW
from toposcope.statistics.trends.usual import departure_correlation
from toposcope.statistics.trends.whitening import Whitened, whiten

TEST = ("r", "r_low", "r_high", "p")
TURNED = 0.5
"""A step of a schedule is in all runs that follow it: a turn counts where it is in this part of them."""
NOTHING_LEFT = "a smooth trend explains a series completely: no innovations"


@dataclass(slots=True)
class RunPair:
    """One pair in one run of `n` checkpoints: its innovations, or `why` there are none to test."""

    why: str
    n: int
    departure: float = np.nan
    free: int = 0
    rate_known: bool = False
    innovations: RunInnovations | None = None


def too_few(n: int) -> str:
    """Return the reason of a run that is too short."""
    return f"{TOO_FEW}: {n} checkpoint{'s' * (n != 1)}, the test needs {LEAST_LENGTH}"


def whitened(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None
) -> tuple[Whitened, Whitened]:
    """Return each column of x (n, p), and y (n,) once for each of them, freed of trend and persistence."""
    both = whiten(np.column_stack([x, y]), steps, rate if rate_is_known(rate) else None)
    cut = x.shape[1]
    return both.taken(np.arange(cut)), both.taken(np.full(cut, cut))


def parts_of(x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None) -> list[RunPair]:
    """Return what each column of x (n, p) has in common with y (n,) in one run."""
    n, count = x.shape
    known = rate_is_known(rate)
    if n < LEAST_LENGTH:
        return [RunPair(too_few(n), n, rate_known=known) for _ in range(count)]
    departure = departure_correlation(x, np.repeat(y[:, None], count, axis=1), steps)
    a, b = whitened(x, y, steps, rate)
    out = []
    for j, pair in enumerate(pair_innovations(a, b, rate_known=known)):
        finite = np.isfinite(pair.e).all() and np.isfinite(pair.f).all()
        free = n - int(max(a.trends[j], b.trends[j]))
        out.append(RunPair(pair.why if finite else NOTHING_LEFT, n, departure[j], free, known, pair))
    return out


def rate_is_known(rate: np.ndarray | None) -> bool:
    """Say whether every checkpoint has a learning rate, a constant one too."""
    return rate is not None and len(rate) > 0 and bool(np.isfinite(rate).all())


def pooled(parts: list[RunPair]) -> dict[str, object]:
    """Return the one test of a feature over its runs: products added step by step."""
    used = [part for part in parts if not part.why]
    departures = [part.departure for part in parts if np.isfinite(part.departure)]
    out: dict[str, object] = dict.fromkeys((*TEST, "least"), np.nan)
    out |= {"runs": len(used), "n": sum(part.n for part in used), "free": 0, "why": "", "reason": ""}
    out |= {"lag": 0, "lag_steps": np.nan, "spikes": False, "doubt": "", "turned": False}
    out["rate_known"] = all(part.rate_known for part in parts)
    out["departure_rho"] = float(np.mean(departures)) if departures else np.nan
    left = [part.why for part in parts if part.why]
    if left:
        out["reason"] = f"{len(left)} of {len(parts)} runs left out: {left[0]}" if used else ""
    if not used:
        out["why"] = left[0] if left else TOO_FEW
        out["n"] = sum(part.n for part in parts)
        return out
    runs = [part.innovations for part in used if part.innovations is not None]
    noted = [run.note for run in runs if run.note]
    if noted:
        told = noted[0] if len(parts) == 1 else f"{len(noted)} of {len(parts)} runs: {noted[0]}"
        out["reason"] = "; ".join(text for text in (str(out["reason"]), told) if text)
    out["free"] = sum(part.free for part in used)
    test = joint_test(runs)
    return out | {
        "r": test.r, "r_low": test.low, "r_high": test.high, "p": test.p, "least": test.least,
        "lag": test.lag, "lag_steps": test.lag * _spacing(runs), "spikes": test.spikes, "doubt": test.doubt,
        "turned": bool(np.mean([run.turned for run in runs]) >= TURNED),
    }  # fmt: skip


def _spacing(runs: list[RunInnovations]) -> float:
    """Return the steps between checkpoints where these are the same all along all runs, NaN elsewhere."""
    gaps = np.concatenate([np.diff(run.steps) for run in runs])
    return float(gaps[0]) if np.ptp(gaps) <= 1e-9 * gaps.max() else float("nan")
