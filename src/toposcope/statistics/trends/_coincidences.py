"""A shared frequency or a shared turn of two series is a single coincidence, so the test leaves it out.

Sign flips assume that the products of innovations are independent of one another. But two waves with the same
period share every sign, whatever their phases. And two curves that turn sharply at a step in the learning
rate share the few checkpoints at which no smooth trend follows them.

- A repeated shape: a sawtooth or a pulse train is a wave with overtones, each of them low. The test takes the
  power at a base frequency and all its multiples (epoch folding: Leahy et al. 1983). If it exceeds, in both
  series, a bar that one white series in five exceeds at some period from three checkpoints to half the run,
  all these waves are projected out of both. This is not done if checkpoints are missing, because too few
  values remain for that many waves.
- A wave with a constant or drifting period: if both have the same strongest wave above the bar of `sweeps`,
  it is projected out of both. In long runs (`LEAST_HALF`) this is then repeated in each half, because a drift
  may reverse.
- A turn, if the learning rate is unknown, because a step in it turns both: if both have three neighbouring
  checkpoints around the same position with a mean square beyond what white noise reaches in one run of ten,
  and the mean square of the smaller two is above `OTHERS` robust variances, both lose these checkpoints.

Innovations that are equal within 1% are not changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import betaincc, betainccinv, chdtri

from toposcope.core.forms import listed_steps, step_text
from toposcope.statistics.trends import _sweeps as sweeps
from toposcope.statistics.trends.refusals import differing, robust_size
from toposcope.statistics.trends.whitening import Whitened

REPEATED = 1.0 / 6.0
"""A shape repeats if white noise has as much power at one period with a probability of `REPEATED` / n.

One white series in five has it at some period: .19 to .22 of 2,000 at 14 to 300 checkpoints."""
LEAST_HALF = 60
"""The fewest checkpoints of a half whose own wave is left out: halves of 25 lose 5 points of power at .5."""
FINER, SHORTEST, REPEATS = 8, 3, 2
"""Base frequencies per 1 / n; the shortest period; the fewest repetitions of a shape."""
OTHERS, TURN_WIDTH = 2.0, 3
"""The bar for the smaller two values of a turn, in robust variances; and its number of checkpoints."""
TURNED = 0.1
"""How often white noise has a turn anywhere; the bar for its mean square follows from chi squared."""


def freed(
    x: Whitened, y: Whitened, *, rate_known: bool = False
) -> tuple[Whitened, Whitened, np.ndarray, np.ndarray]:
    """Return each pair without the shape, the wave and the turns that both series have.

    The third result says in words what was left out, the fourth has the steps of turns; both are empty if
    there is nothing.
    """
    differ = differing(x, y)
    x, y, notes = _without_shapes(x, y, differ)
    turned = np.full(len(differ), "", dtype=object)
    if not rate_known:
        x, y, turned = _without_turns(x, y, differ, notes)
    return *_without_waves(x, y, differ, notes), notes, turned


def _without_turns(
    x: Whitened, y: Whitened, differ: np.ndarray, notes: np.ndarray
) -> tuple[Whitened, Whitened, np.ndarray]:
    """Return each pair that may `differ` without the checkpoints around the turns that both make."""
    gone = _turns(x, y) & differ
    turned = np.full(len(differ), "", dtype=object)
    if not gone.any():
        return x, y, turned
    x, y = (replace(z, e=np.where(gone, 0.0, z.e)) for z in (x, y))
    for j in np.flatnonzero(gone.any(axis=0)).tolist():
        turned[j] = listed_steps(_spans(x.steps, gone[:, j]))
        _add(notes, j, f"a turn at steps {turned[j]}")
    return x, y, turned


def _spans(steps: np.ndarray, there: np.ndarray) -> list[str]:
    """Return the first and last step of each stretch of neighbours.

    >>> _spans(np.arange(6), np.array([True, True, False, False, True, True]))
    ['0–1', '4–5']
    """
    at = np.flatnonzero(there)
    parts = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
    return [f"{step_text(steps[part[0]])}–{step_text(steps[part[-1]])}" for part in parts]


def _add(notes: np.ndarray, j: int, note: str) -> None:
    notes[j] = f"{notes[j]} and {note}" if notes[j] else note


def _without_shapes(x: Whitened, y: Whitened, differ: np.ndarray) -> tuple[Whitened, Whitened, np.ndarray]:
    """Return each pair that may `differ` without the shape that both repeat, and a description of it."""
    n, notes = len(x.e), np.full(x.e.shape[1], "", dtype=object)
    if x.count < n:
        return x, y, notes
    both = np.minimum(folded(x.e), folded(y.e))
    at = np.flatnonzero((both > folded_bar(n)[:, None]).any(axis=0) & differ)
    if not len(at):
        return x, y, notes
    x, y = (replace(z, e=z.e.copy(), left=z.left.copy()) for z in (x, y))
    chance = betaincc(*(part[:, None] for part in _beta(n)), both[:, at])
    for j, place in zip(at.tolist(), chance.argmin(axis=0).tolist(), strict=True):
        halves = _bases(n)[place] * 2.0 / FINER
        period = 2.0 * n / halves
        for z in (x, y):
            overtones = halves * np.arange(1, int(period / 2.0 + 1e-9) + 1)
            _project(z, j, np.pi / n * np.arange(n)[:, None] * overtones)
        _add(notes, j, f"a pattern of {period:.3g} checkpoints")
    return x, y, notes


def _bases(n: int) -> np.ndarray:
    """Return the base frequencies of shapes that repeat within n checkpoints, in 1 / (`FINER` n)."""
    return np.arange(FINER * REPEATS, FINER * n // SHORTEST + 1)


def _beta(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distribution of the power share of n white values at each base and its multiples."""
    multiples = FINER * n // 2 // _bases(n)
    return multiples, n / 2.0 - multiples


def folded(e: np.ndarray) -> np.ndarray:
    """Return the share of each column's power at each base frequency and its multiples, (bases, columns)."""
    n, base, multiples = len(e), _bases(len(e)), _beta(len(e))[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        power = np.abs(np.fft.rfft(e, FINER * n, axis=0)) ** 2 * (2.0 / n / np.sum(e * e, axis=0))
    share = np.zeros((len(base), e.shape[1]))
    for k in range(1, multiples.max(initial=0) + 1):
        share[multiples >= k] += power[k * base[multiples >= k]]
    return np.minimum(share, 1.0)


def folded_bar(n: int) -> np.ndarray:
    """Return the share that white noise exceeds with a probability of `REPEATED` / n at each base."""
    return np.asarray(betainccinv(*_beta(n), REPEATED / n))


def _without_waves(
    x: Whitened, y: Whitened, differ: np.ndarray, notes: np.ndarray
) -> tuple[Whitened, Whitened]:
    """Return each pair that may `differ` without the waves that both have; describe them in `notes`."""
    n = len(x.e)
    x, y = (replace(z, e=z.e.copy(), left=z.left.copy()) for z in (x, y))
    _without_wave(x, y, differ, notes, slice(0, n))
    if n >= 2 * LEAST_HALF:
        for half in (slice(0, n // 2), slice(n // 2, n)):
            _without_wave(x, y, differ, notes, half)
    return x, y


def _without_wave(x: Whitened, y: Whitened, differ: np.ndarray, notes: np.ndarray, part: slice) -> None:
    """Project the strongest shared wave in a part of the run out of each pair that may `differ`."""
    e, f = x.e[part], y.e[part]
    shared = sweeps.shared(e, f)
    for j in np.flatnonzero((shared.power > sweeps.bar(len(e))) & differ).tolist():
        turns = np.full((len(x.e), 1), np.nan)
        turns[part, 0] = shared.turns(j)
        for z in (x, y):
            _project(z, j, turns)
        _add(notes, j, f"a wave of {shared.words(j)}")


def _project(z: Whitened, j: int, turns: np.ndarray) -> None:
    """Remove the waves with these phases (n, waves; NaN outside of them) from column j."""
    e = z.e[:, j]
    there = np.abs(e) > 1e-9 * np.abs(e).max()
    both = np.nan_to_num(np.hstack([np.cos(turns), np.sin(turns)]))
    waves, sizes, _ = np.linalg.svd(both * there[:, None], full_matrices=False)
    waves = waves[:, sizes > 1e-6 * sizes[0]]
    z.e[:, j] -= waves @ (waves.T @ e)
    z.left[:, j] = np.maximum(z.left[:, j] - np.sum(waves * waves, axis=1), 1e-6)


def _turns(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each checkpoint (n, pairs) whether it is in a turn that both series make."""
    n = len(x.e)
    starts = np.arange(n - TURN_WIDTH + 1)
    bar = float(chdtri(TURN_WIDTH, TURNED / n)) / TURN_WIDTH
    first, second = _loud(x.e, bar), _loud(y.e, bar)
    both = (first & _near(second)) | (_near(first) & second)
    gone = np.zeros(x.e.shape, bool)
    for k in range(TURN_WIDTH):
        gone[starts + k] |= both
    return gone


def _loud(e: np.ndarray, bar: float) -> np.ndarray:
    """Return for each `TURN_WIDTH` neighbours whether they stand out together; a single one is a spike."""
    places = len(e) - TURN_WIDTH + 1
    powers = np.stack([e[k : k + places] ** 2 for k in range(TURN_WIDTH)])
    with np.errstate(invalid="ignore"):
        variance = robust_size(e) ** 2
        others = (powers.sum(axis=0) - powers.max(axis=0)) / (TURN_WIDTH - 1)
        return np.asarray((powers.mean(axis=0) > bar * variance) & (others > OTHERS * variance))


def _near(flags: np.ndarray) -> np.ndarray:
    """Return `flags` (positions, pairs) widened by `TURN_WIDTH` on either side."""
    out = flags.copy()
    for k in range(1, TURN_WIDTH + 1):
        out[k:] |= flags[:-k]
        out[:-k] |= flags[k:]
    return out
