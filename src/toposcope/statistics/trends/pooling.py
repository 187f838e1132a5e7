"""One test of a feature over several runs: products of innovations, added checkpoint by checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import numpy as np

from toposcope.statistics.trends.descriptive import departure_correlation
from toposcope.statistics.trends.innovations import LEAST_LENGTH, pair_innovations, whole_innovations
from toposcope.statistics.trends.joint import RunInnovations, joint_test
from toposcope.statistics.trends.refusals import IN_SHORT, TOO_FEW
from toposcope.statistics.trends.whitening import Whitened, whiten

TEST = ("r", "r_low", "r_high", "p")
TURNED = 0.5
"""A step in a schedule affects all runs that follow it, so a turn counts only in this share of runs."""
NOTHING_LEFT = "nothing remains after a smooth trend is removed"


@dataclass(slots=True)
class RunPair:
    """One pair in one run of `n` checkpoints: its innovations, or `why` it cannot be tested.

    If a rule left something out or refused the pair, `whole` are the innovations with nothing left out.
    """

    why: str
    n: int
    departure: float = np.nan
    free: int = 0
    rate_known: bool = False
    innovations: RunInnovations | None = None
    whole: RunInnovations | None = None


FEW = "too few: "
"""How the reason for a run that is too short begins."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """The test without some of its rules: p, the `least` p, the `doubt`, and these rules in words."""

    p: float
    least: float
    doubt: str
    rules: str


def too_few(n: int) -> str:
    """Return the reason for a run that is too short."""
    return f"{FEW}{n:,} checkpoint{'s' * (n != 1)}, the test needs {LEAST_LENGTH}"


def whitened(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None
) -> tuple[Whitened, Whitened]:
    """Return each column of x (n, p), and y (n,) repeated for each, without trend and persistence."""
    both = whiten(np.column_stack([x, y]), steps, rate if rate_is_known(rate) else None)
    cut = x.shape[1]
    return both.taken(np.arange(cut)), both.taken(np.full(cut, cut))


def parts_of(x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None) -> list[RunPair]:
    """Return the innovations of each column of x (n, p) and of y (n,) in one run."""
    n, count = x.shape
    rate_known = rate_is_known(rate)
    if n < LEAST_LENGTH:
        return [RunPair(too_few(n), n, rate_known=rate_known) for _ in range(count)]
    departure = departure_correlation(x, np.repeat(y[:, None], count, axis=1), steps)
    a, b = whitened(x, y, steps, rate)
    pairs, out = pair_innovations(a, b, rate_known=rate_known), []
    ruled = np.flatnonzero([bool(pair.why or pair.note) for pair in pairs])
    whole = dict(zip(ruled.tolist(), whole_innovations(a.taken(ruled), b.taken(ruled)), strict=True))
    for j, pair in enumerate(pairs):
        finite = np.isfinite(pair.e).all() and np.isfinite(pair.f).all()
        free = n - int(max(a.trends[j], b.trends[j]))
        why = pair.why if finite else NOTHING_LEFT
        out.append(RunPair(why, n, departure[j], free, rate_known, pair, whole.get(j) if finite else None))
    return out


def rate_is_known(rate: np.ndarray | None) -> bool:
    """Return whether every checkpoint has a learning rate, which may be constant."""
    return rate is not None and len(rate) > 0 and bool(np.isfinite(rate).all())


def pooled(parts: list[RunPair]) -> dict[str, object]:
    """Return the test of a feature over its runs: products added step by step.

    `part` says how many runs were used, if not all; `otherwise`, if a rule left something out, returns the
    test without that rule.
    """
    used = [part for part in parts if not part.why]
    departures = [part.departure for part in parts if np.isfinite(part.departure)]
    out: dict[str, object] = dict.fromkeys((*TEST, "least"), np.nan)
    out |= {"runs": len(used), "n": sum(part.n for part in used), "free": 0, "why": "", "part": ""}
    out |= {"lag": 0, "lag_steps": np.nan, "spikes": False, "doubt": "", "turned": ""}
    out["otherwise"] = None
    out["rate_known"] = all(part.rate_known for part in parts)
    out["departure_rho"] = float(np.mean(departures)) if departures else np.nan
    if not used:
        out["why"] = parts[0].why if parts else TOO_FEW
        out["n"] = sum(part.n for part in parts)
        return out
    runs = [part.innovations for part in used if part.innovations is not None]
    if len(used) < len(parts):
        out["part"] = f"{len(used):,} of {len(parts):,} runs"
    if any(part.whole for part in parts):
        out["otherwise"] = partial(without_rules, parts)
    turned = [run.turned for run in runs if run.turned]
    if len(turned) >= TURNED * len(runs):
        out["turned"] = turned[0]
    out["free"] = sum(part.free for part in used)
    test = joint_test(runs)
    return out | {
        "r": test.r, "r_low": test.low, "r_high": test.high, "p": test.p, "least": test.least,
        "lag": test.lag, "lag_steps": test.lag * _spacing(runs), "spikes": test.spikes, "doubt": test.doubt,
    }  # fmt: skip


def without_rules(parts: list[RunPair]) -> list[Otherwise]:
    """Return the test with what was left out put back, with the refused runs, and with both."""
    noted = [part for part in parts if part.whole and not part.why]
    refused = [part for part in parts if part.whole and part.why]
    words, out = "", []
    if noted:
        words = _left_out(noted, len(parts))
        out.append(_otherwise([_put_back(part) for part in parts if not part.why], words))
    if refused:
        several = f"{len(refused):,} of {len(parts):,} runs {IN_SHORT.get(refused[0].why, 'left out')}"
        out.append(_otherwise([part.whole if part.why else part.innovations for part in parts], several))
        if noted:
            out.append(_otherwise([_put_back(part) for part in parts], f"{words}, {several}"))
    return out


def _put_back(part: RunPair) -> RunInnovations | None:
    return part.whole or (None if part.why else part.innovations)


def _otherwise(runs: list[RunInnovations | None], rules: str) -> Otherwise:
    test = joint_test([run for run in runs if run is not None], intervals=False)
    return Otherwise(test.p, test.least, test.doubt, rules)


def _left_out(noted: list[RunPair], runs: int) -> str:
    """Return what was left out of the first of these runs; for several runs, without its size."""
    note = noted[0].innovations.note if noted[0].innovations else ""
    kinds = re.split(" and (?=a )", note)
    verb = "is" if len(kinds) == 1 else "are"
    if runs == 1:
        return f"after {note} that both share {verb} removed"
    named = " and ".join(re.split(" of | at ", kind)[0] for kind in kinds)
    return f"after {named} that both share {verb} removed in {len(noted):,} of {runs:,} runs"


def _spacing(runs: list[RunInnovations]) -> float:
    """Return the steps between checkpoints if they are equal throughout all runs, else NaN."""
    gaps = np.concatenate([np.diff(run.steps) for run in runs])
    return float(gaps[0]) if np.ptp(gaps) <= 1e-9 * gaps.max() else float("nan")
