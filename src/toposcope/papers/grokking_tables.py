"""The positive control as tables: what was detected, how far from the loss, and how often falsely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

from toposcope.papers.fourier import KEYS, circle_bar, key_frequencies
from toposcope.papers.grokking import (
    CHOICES,
    CONTROLS,
    Detection,
    StudiedRun,
    control,
    power_of,
)
from toposcope.papers.sections import Section
from toposcope.statistics.phases.reference import FALSE_ALARMS

HEADLINE = ("own", "scaled")
"""The series that decides: needs no hindsight, and does not move when the embedding merely grows."""
Comparison = tuple[str, float | None, float | None, float | None, float | None, float | None, str]
"""What was compared, the step of H1, that of the loss, their difference with its ends, and the verdict."""
_WORDS = {
    "heldout_loss": "held-out loss",
    "longest": "longest bar",
    "scaled": "longest bar / radius",
    "second_share": "second / longest bar",
    "power": "power share, no topology",
}


def tables(studied: Sequence[StudiedRun]) -> list[Section]:
    """Return the study: detection, lead or lag, negative control, every checkpoint."""
    return [detection(studied), lags(studied), false_alarms(studied), checkpoints(studied)]


def detection(studied: Sequence[StudiedRun]) -> Section:
    """Return when every series turns, by the segment search and by the online detector."""
    columns = ("run", "series", "frequencies chosen at", "first turn", "from", "to",
               "steepest turn", "from ", "to ", "online: dated to", "online: raised at",
               "p alone", "p among shuffled")  # fmt: skip
    rows = [
        (one.run.name, _WORDS[measure], CHOICES.get(choice, ""), *_turn_cells(finding))
        for one in studied
        for (choice, measure), finding in one.findings.items()
    ]
    seen = [one.findings[HEADLINE].first is not None for one in studied]
    online = [one.findings[HEADLINE].raised is not None for one in studied]
    alone = [one.findings[HEADLINE].p <= FALSE_ALARMS for one in studied]
    loss = [one.findings["", "heldout_loss"].first is not None for one in studied]
    note = (
        f"The transition in H1 was detected in {sum(seen)} of {len(seen)} runs by the segment search, its "
        "gain judged among those of shuffled residues where there are enough; "
        f"in {sum(alone)} by the search on its own; in {sum(online)} online. That in the held-out loss was "
        f"detected in {sum(loss)} by the search on its own. H1 is judged by the longest bar over the plane's "
        f"radius with the {KEYS} frequencies of largest power at each checkpoint, which needs no hindsight; "
        "choosing them "
        "at the last checkpoint is retrospective. A turn is a boundary after which the slope on "
        "log(step) has the awaited sign (bars rise, second / longest and loss fall) and is steeper "
        "than before; from-to is its 95% set. The online detector dates a change "
        "only when it raises the alarm, and gives no interval."
    )
    return Section("When each series turns", columns, tuple(rows), f"{note} {_solution(studied)}")


def _turn_cells(finding: Detection) -> tuple[float | None, ...]:
    cells: list[float | None] = []
    for turn in (finding.first, finding.steepest):
        cells += [turn.step, turn.low, turn.high] if turn else [None] * 3
    return (*cells, finding.dated, finding.raised, finding.p, finding.p_control)


def _solution(studied: Sequence[StudiedRun]) -> str:
    """Say how far the last checkpoints are from circles: without that nothing there was to detect."""
    parts = []
    for one in studied:
        reached = one.bars["last"]["scaled"].iloc[-1] / circle_bar(one.run.residues)
        keys = key_frequencies(one.run.power[-1])
        share = power_of(one.run, "last")[-1]
        parts.append(
            f"{one.run.name}: bars {100 * reached:.0f}% of a circle's, {100 * share:.0f}% of the "
            f"embedding's variance on frequencies {', '.join(map(str, sorted(keys.tolist())))}"
        )
    return f"At the last checkpoint: {'; '.join(parts)}."


def lags(studied: Sequence[StudiedRun]) -> Section:
    """Return how many steps after (negative: before) the held-out loss the bars and the power turn."""
    columns = ("run", "series", "frequencies chosen at", "compared", "series turns", "loss turns",
               "difference", "from", "to", "the series turns")  # fmt: skip
    rows: list[tuple[object, ...]] = []
    gaps: dict[tuple[str, str, str], list[float | None]] = {}
    for measure in (HEADLINE[1], "power"):
        for choice in CHOICES:
            for one in studied:
                found = _compare(one.findings[choice, measure], one.findings["", "heldout_loss"])
                rows += [(one.run.name, _WORDS[measure], CHOICES[choice], *row) for row in found]
                for row in found:
                    gaps.setdefault((measure, choice, row[0]), []).append(row[3])
    spacing = max(float(np.diff(one.run.steps).max()) for one in studied)
    notes = [
        f"Difference: the series' step minus the held-out loss's; both are checkpoints, {spacing:g} steps "
        "apart. From-to combines the ends of both 95% sets."
    ]
    for (measure, choice, compared), values in gaps.items():
        if choice == HEADLINE[0]:
            known = np.array([value for value in values if value is not None], float)
            notes.append(_over_runs(_WORDS[measure], compared, known, len(values)))
    return Section("Steps between H1 and the held-out loss", columns, tuple(rows), " ".join(notes))


def _compare(bar: Detection, loss: Detection) -> list[Comparison]:
    rows: list[Comparison] = []
    for name, mine, other in (
        ("first turn", bar.first, loss.first),
        ("steepest turn", bar.steepest, loss.steepest),
    ):
        if mine is None or other is None:
            mine_at, other_at = mine.step if mine else None, other.step if other else None
            rows.append((name, mine_at, other_at, None, None, None, "not detected"))
            continue
        low, high = mine.low - other.high, mine.high - other.low
        verdict = "after" if low > 0 else "before" if high < 0 else "not told apart"
        rows.append((name, mine.step, other.step, mine.step - other.step, low, high, verdict))
    if bar.raised is None or loss.raised is None:
        rows.append(("online alarm", bar.raised, loss.raised, None, None, None, "not detected"))
    else:
        gap = bar.raised - loss.raised
        verdict = "after" if gap > 0 else "before" if gap < 0 else "same checkpoint"
        rows.append(("online alarm", bar.raised, loss.raised, gap, None, None, verdict))
    return rows


def _over_runs(series: str, compared: str, gaps: np.ndarray, runs: int) -> str:
    """Say what the gaps of all runs amount to; the runs are the independent observations."""
    if not len(gaps):
        return f"{series}, by the {compared}: no run has both."
    mean = float(gaps.mean())
    where = "after" if mean > 0 else "before" if mean < 0 else "from"
    said = f"By the {compared}, {series} turns {abs(mean):.0f} steps {where} the held-out loss"
    if len(gaps) == 1:
        return f"{said} in the one run that has both; another seed may differ."
    half = float(student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return (
        f"{said} on average over {len(gaps)} of {runs} runs "
        f"(95% interval over runs {mean - half:.0f} to {mean + half:.0f})."
    )


def false_alarms(studied: Sequence[StudiedRun]) -> Section:
    """Return how often the same detectors fire at all on planes without circles."""
    columns = ("planes", "series", "draws", "segments fire", "from", "to", "online fires", "from ", "to ",
               "beyond the stated rate")  # fmt: skip
    rows, beyond = [], []
    for kind, name in CONTROLS.items():
        counts = [control(one.run, kind) for one in studied]
        total = sum(one.run.control["draw"].nunique() for one in studied)
        for measure in counts[0]:
            shares = [_share(sum(count[measure][i] for count in counts), total) for i in (0, 1)]
            worse = any(low > FALSE_ALARMS for _, low, _ in shares)
            rows.append((name, _WORDS[measure], total, *shares[0], *shares[1], "yes" if worse else "no"))
            if worse:
                beyond.append(f"{_WORDS[measure]}, {name}")
    note = (
        f"As many planes ({KEYS}) of the same embeddings, with the residues permuted (frequencies chosen "
        "anew at each checkpoint, so that what choosing does is in it) or along random directions. "
        f"Both detectors state {100 * FALSE_ALARMS:.0f}% of runs with any boundary; from-to is the "
        "exact binomial 95% interval. Draws of one run share its embedding, so the true uncertainty "
        "is larger. "
    )
    note += f"Beyond the stated rate: {'; '.join(beyond)}." if beyond else "None is beyond the stated rate."
    if beyond:
        note += (
            " Such a series turns for other reasons too, as when the norm does: it is no evidence of circles."
        )
    return Section("Negative control: planes without circles", columns, tuple(rows), note)


def _share(count: int, total: int) -> tuple[float, float, float]:
    interval = binomtest(count, total).proportion_ci(method="exact")
    return count / total, float(interval.low), float(interval.high)


def checkpoints(studied: Sequence[StudiedRun]) -> Section:
    """Return every checkpoint's losses and bars, by both choices of frequencies."""
    columns = ["run", "step", "loss", "held-out loss"]
    columns += [f"{name}, {choice}" for choice in CHOICES for name in ("longest", "/ radius", "ratio")]
    rows = []
    for one in studied:
        cells = [one.bars[choice][name] for choice in CHOICES for name in ("longest", "scaled", "ratio")]
        for i, step in enumerate(one.run.steps):
            values = [one.run.loss[i], one.run.heldout_loss[i], *(cell.iloc[i] for cell in cells)]
            rows.append((one.run.name, int(step), *(float(v) if np.isfinite(v) else None for v in values)))
    note = (
        f"Means over the {KEYS} planes of the frequencies chosen at {CHOICES['own']} (own) or at "
        f"{CHOICES['last']} (last); longest in the embedding's units, ratio of the longest to the second "
        "longest bars (summed over planes; empty where no plane has a second)."
    )
    return Section("Every checkpoint", tuple(columns), tuple(rows), note)
