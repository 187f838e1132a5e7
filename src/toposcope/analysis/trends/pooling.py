"""One test of a feature over several runs: the products of innovations, added checkpoint by checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from toposcope.analysis.trends.alignment import SHARE, alignment_interval, alignment_tail, standardised
from toposcope.analysis.trends.coincidences import freed
from toposcope.analysis.trends.innovations import (
    ALPHA,
    LEAST_LENGTH,
    compared,
    only_aligned,
    pair_products,
    persistence_left,
    persisting,
    product_test,
    widened,
    with_alignment,
)
from toposcope.analysis.trends.refusals import TOO_FEW, untestable
from toposcope.analysis.trends.usual import departure_correlation
from toposcope.analysis.trends.whitening import Whitened, whiten

TEST = ("r", "r_low", "r_high", "p")
_none = partial(np.empty, 0)
NOTHING_LEFT = "a smooth trend explains a series completely: no innovations"


@dataclass(slots=True)
class RunProducts:
    """The products of one run's innovations for one feature; `why` says why there are none.

    `note` says what was left out of them.
    """

    steps: np.ndarray
    why: str
    n: int
    note: str = ""
    departure: float = np.nan
    free: int = 0
    persists: bool = False
    left: float = np.nan
    excess: float = 1.0
    product: np.ndarray = field(default_factory=_none)
    square: np.ndarray = field(default_factory=_none)
    weight: np.ndarray = field(default_factory=_none)
    e: np.ndarray = field(default_factory=_none)
    f: np.ndarray = field(default_factory=_none)


def too_few(n: int) -> str:
    """Return the reason of a run that is too short."""
    return f"{TOO_FEW}: {n} checkpoint{'s' * (n != 1)}, the test needs {LEAST_LENGTH}"


def whitened(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None
) -> tuple[Whitened, Whitened]:
    """Return each column of x (n, p), and y (n,) once for each of them, freed of trend and persistence."""
    known = rate is not None and np.isfinite(rate).all()
    both = whiten(np.column_stack([x, y]), steps, rate if known else None)
    cut = x.shape[1]
    return both.taken(np.arange(cut)), both.taken(np.full(cut, cut))


def parts_of(x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None) -> list[RunProducts]:
    """Return what each column of x (n, p) has in common with y (n,) in one run."""
    n, count = x.shape
    if n < LEAST_LENGTH:
        return [RunProducts(steps, too_few(n), n) for _ in range(count)]
    departure = departure_correlation(x, np.repeat(y[:, None], count, axis=1), steps)
    a, b = whitened(x, y, steps, rate)
    reasons = untestable(a, b)
    a, b, notes = freed(a, b)
    persist = persisting(a, b)
    left = np.sqrt(a.left * b.left)
    e, f, steady = compared(a, b)
    product, square, weight = pair_products(e, f, left)
    excess = persistence_left(e, f, a.trace * b.trace)
    e, f = (np.where(steady, standardised(z.e), np.nan) for z in (a, b))
    out = []
    for j in range(count):
        why = reasons[j] if np.isfinite(product[:, j]).all() else NOTHING_LEFT
        part = RunProducts(a.steps, why, n, "" if why else notes[j], departure[j])
        part.product, part.square, part.weight = product[:, j], square[:, j], weight[:, j]
        part.e, part.f, part.excess = e[:, j], f[:, j], float(excess[j])
        part.left = float(left[:, j].mean()) / part.excess
        part.free = n - int(max(a.trends[j], b.trends[j]))
        part.persists = bool(persist[j])
        out.append(part)
    return out


def pooled(parts: list[RunProducts]) -> dict[str, object]:
    """Return the one test of a feature over its runs: products added step by step."""
    used = [part for part in parts if not part.why]
    departures = [part.departure for part in parts if np.isfinite(part.departure)]
    out: dict[str, object] = dict.fromkeys((*TEST, "least"), np.nan)
    out |= {"runs": len(used), "n": sum(part.n for part in used), "free": 0, "why": "", "reason": ""}
    out["spikes"] = False
    out["departure_rho"] = float(np.mean(departures)) if departures else np.nan
    left = [part.why for part in parts if part.why]
    if left:
        out["reason"] = f"{len(left)} of {len(parts)} runs left out: {left[0]}" if used else ""
    noted = [part.note for part in used if part.note]
    if noted:
        told = noted[0] if len(parts) == 1 else f"{len(noted)} of {len(parts)} runs: {noted[0]}"
        out["reason"] = "; ".join(text for text in (str(out["reason"]), told) if text)
    if not used:
        out["why"] = left[0] if left else TOO_FEW
        out["n"] = sum(part.n for part in parts)
        return out
    steps = np.unique(np.concatenate([part.steps for part in used]))
    sums = np.zeros((4, len(steps)))
    for part in used:
        at = np.searchsorted(steps, part.steps)
        sums[:, at] += part.product, part.square, part.weight, np.ones(len(at))
    out["free"] = sum(part.free for part in used)
    product, square, weight = (part[:, None] for part in (sums[0], sums[1], sums[2] / sums[3]))
    pair = _aligned(used)
    signs = product_test(
        product,
        square,
        weight,
        np.array([""], dtype=object),
        excess=np.array([np.mean([part.excess for part in used])]),
        alpha=np.array([ALPHA if pair is None else (1.0 - SHARE) * ALPHA]),
    )
    tails, ends = np.full((2, 1), np.nan), np.full((3, 1), np.nan)
    if pair is not None:
        tails[:, 0] = alignment_tail(*pair)
        if only_aligned(signs.p, tails[0])[0]:
            ends[:, 0] = alignment_interval(*pair, SHARE * ALPHA)
    persists = np.mean([part.persists for part in used]) > 0.5
    test = widened(with_alignment(signs, tails, ends), np.array([persists]))
    return out | {
        "spikes": bool(test.spikes[0]),
        "r": test.r[0], "r_low": test.low[0], "r_high": test.high[0], "p": test.p[0], "least": test.least[0],
    }  # fmt: skip


def _aligned(parts: list[RunProducts]) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return what the alignment takes, e and f (runs, n); None where runs differ in steps, or one wanes."""
    if any(not np.array_equal(part.steps, parts[0].steps) or np.isnan(part.e).any() for part in parts):
        return None
    e, f = np.stack([part.e for part in parts]), np.stack([part.f for part in parts])
    return e, f, float(np.mean([part.left for part in parts]))
