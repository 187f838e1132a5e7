"""What two series share at one frequency or at one early turn is one coincidence: the test leaves it out.

Sign flips take the products of innovations for independent of one another. Two waves of one period share
every sign, whatever their phases. Two curves that turn sharply while the learning rate warms up share the few
checkpoints at which no smooth trend follows them, and where turns are likely.

- A wave: where the periodograms of both have a line at one frequency (half steps of it), each beyond a bar
  that one white series in five exceeds (Fisher 1929; one in two where steps are uneven or checkpoints fewer
  than 40, for there the trends and the persistence take a part of a wave and its line is lower), that wave is
  projected off both. Below 40 checkpoints up to three are: a saw or a train of pulses has overtones.
- A turn, where steps are even: where both have three neighbouring checkpoints with a mean square above
  `TURN` robust variances, that of the lesser two above `OTHERS`, around the same place in the first 15% of
  the run, both lose those checkpoints.

Innovations that are the same within 1% stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toposcope.analysis.trends.refusals import differing, line_bar, robust_size, spectrum, uneven_steps
from toposcope.analysis.trends.whitening import SHORT, Whitened

SHARED_LINE = 0.2, 0.5
"""How often one white series has a line beyond the bar: at 40 even steps or more, and elsewhere."""
MOST_WAVES = 1, 3
"""How many waves a pair loses at most: from 40 checkpoints on, and below, where overtones count."""
TURN, OTHERS, TURN_WIDTH, EARLY = 4.0, 2.0, 3, 0.15


def freed(x: Whitened, y: Whitened) -> tuple[Whitened, Whitened, np.ndarray]:
    """Return each pair without the wave and the early turn that both have, and what was left out in words."""
    notes = np.full(x.e.shape[1], "", dtype=object)
    differ = differing(x, y)
    if not uneven_steps(x.steps):
        gone = _turns(x, y) & differ
        if gone.any():
            x, y = (replace(z, e=np.where(gone, 0.0, z.e)) for z in (x, y))
            for j in np.flatnonzero(gone.any(axis=0)):
                last = x.steps[np.flatnonzero(gone[:, j])[-1]]
                notes[j] = f"both turn sharply up to step {last:g}: those checkpoints left out"
    return *_without_waves(x, y, differ, notes), notes


def _without_waves(
    x: Whitened, y: Whitened, differ: np.ndarray, notes: np.ndarray
) -> tuple[Whitened, Whitened]:
    """Return each pair that may `differ` without the waves that both have; say in `notes` which they were."""
    short = x.count < SHORT
    bar = line_bar(x.count, SHARED_LINE[short or uneven_steps(x.steps)])
    at = np.flatnonzero(differ)
    for _ in range(MOST_WAVES[short]):
        both = np.minimum(spectrum(x.taken(at)), spectrum(y.taken(at)))
        with np.errstate(invalid="ignore"):
            found = (both > bar).any(axis=0)
        if not found.any():
            break
        at, halves = at[found], both[:, found].argmax(axis=0) + 1
        x, y = (replace(z, e=z.e.copy(), left=z.left.copy()) for z in (x, y))
        for j, half in zip(at, halves, strict=True):
            for z in (x, y):
                wave = _wave(z.e[:, j], half)
                z.e[:, j] -= wave @ (wave.T @ z.e[:, j])
                z.left[:, j] = np.maximum(z.left[:, j] - np.sum(wave * wave, axis=1), 1e-6)
            note = f"a wave of {2.0 * len(x.e) / half:.3g} checkpoints that both keep left out"
            notes[j] = f"{notes[j]}; {note}" if notes[j] else note
    return x, y


def _wave(e: np.ndarray, half: int) -> np.ndarray:
    """Return an orthonormal basis (n, 2) of the wave of this half step of frequency where e has values."""
    turn = np.pi / len(e) * half * np.arange(len(e))
    there = np.abs(e) > 1e-9 * np.abs(e).max()
    basis, _ = np.linalg.qr(np.column_stack([np.cos(turn), np.sin(turn)]) * there[:, None])
    return basis


def _turns(x: Whitened, y: Whitened) -> np.ndarray:
    """Return the checkpoints of early turns that both make, (n, pairs)."""
    n = len(x.e)
    share = (x.steps - x.steps[0]) / (x.steps[-1] - x.steps[0])
    starts = np.arange(n - TURN_WIDTH + 1)
    early = (share[starts + TURN_WIDTH // 2] <= EARLY)[:, None]
    first, second = (_loud(z.e) & early for z in (x, y))
    both = (first & _near(second)) | (_near(first) & second)
    gone = np.zeros(x.e.shape, bool)
    for k in range(TURN_WIDTH):
        gone[starts + k] |= both
    return gone


def _loud(e: np.ndarray) -> np.ndarray:
    """Say of each `TURN_WIDTH` neighbours whether they stand out together; one alone would be a spike."""
    places = len(e) - TURN_WIDTH + 1
    powers = np.stack([e[k : k + places] ** 2 for k in range(TURN_WIDTH)])
    with np.errstate(invalid="ignore"):
        variance = robust_size(e) ** 2
        others = (powers.sum(axis=0) - powers.max(axis=0)) / (TURN_WIDTH - 1)
        return np.asarray((powers.mean(axis=0) > TURN * variance) & (others > OTHERS * variance))


def _near(found: np.ndarray) -> np.ndarray:
    """Return `found` (places, pairs) widened by `TURN_WIDTH` to either side."""
    out = found.copy()
    for k in range(1, TURN_WIDTH + 1):
        out[k:] |= found[:-k]
        out[:-k] |= found[k:]
    return out
