"""The positive control as tables: what was detected, how far from the loss, and the false-alarm rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from toposcope.core.distributions import binomial_interval
from toposcope.statistics.phases.reference import FALSE_ALARMS
from toposcope.studies.claims import Claim, Standing, claims_section, holds
from toposcope.studies.grokking.fourier import KEYS, circle_bar, key_frequencies
from toposcope.studies.grokking.rises import LEAST_DRAWS, LevelMove
from toposcope.studies.grokking.runs import (
    CHOICES,
    CONTROLS,
    HEADLINE,
    LOSS,
    Detection,
    StudiedRun,
    control,
    power_of,
)
from toposcope.studies.sections import Section

Comparison = tuple[str, float | None, float | None, float | None, float | None, float | None, str]
"""What was compared, the step of H1, that of the loss, their difference, its interval, and the verdict."""
_WORDS = {
    "heldout_loss": "held-out loss",
    "longest": "longest bar",
    "scaled": "longest bar / radius",
    "second_share": "second / longest bar",
    "power": "power share, no topology",
}


def tables(studied: Sequence[StudiedRun]) -> list[Section]:
    """Return the study: claims, the answer, every series, lead or lag, negative control, checkpoints."""
    return [
        claims_section(claims(studied)),
        answer(studied),
        detection(studied),
        lags(studied),
        false_alarms(studied),
        checkpoints(studied),
    ]


def claims(studied: Sequence[StudiedRun]) -> list[Claim]:
    """Return what the positive control should show, judged over its runs."""
    judged = [study.findings[HEADLINE] for study in studied if study.findings[HEADLINE].p_control is not None]
    rise_count = sum(finding.found for finding in judged)
    chance = float(binom.sf(rise_count - 1, len(judged), FALSE_ALARMS)) if judged else float("nan")
    compared = [
        row
        for study in studied
        for row in _compare(study.findings[HEADLINE], study.findings[LOSS])
        if row[0] == "middle" and row[3] is not None
    ]
    before = sum(row[-1] == "before" for row in compared)
    gaps = ", ".join(f"{row[3]:+.0f}" for row in compared)
    return [
        Claim(
            text="H1 sees a transformer find the circles of modular addition",
            source="the circles are known",
            here=f"in {rise_count} of {len(judged):,} runs" if judged else "no run has enough shuffles",
            statistic=f"probability {chance:.2g} without circles",
            judgement=Standing.UNTESTED if not judged else holds(chance < FALSE_ALARMS),
        ),
        Claim(
            text="H1 sees it before the held-out loss does",
            source="expected",
            here=f"half way before the loss in {before} of {len(compared):,} runs",
            statistic=f"steps after the loss: {gaps}" if compared else "no run has both",
            judgement=Standing.UNTESTED if not compared else holds(2 * before > len(compared)),
        ),
    ]


def answer(studied: Sequence[StudiedRun]) -> Section:
    """Return what was found and at what level: the title summarises it, the table has it by run."""
    columns = ("run", "p among shuffled", "height of H1", "highest shuffled", "H1 begins to rise", "from",
               "to", "H1 half way", "from ", "to ", "loss begins to fall", "from  ", "to  ", "loss half way",
               "from   ", "to   ")  # fmt: skip
    rows = []
    for study in studied:
        bar, loss = study.findings[HEADLINE], study.findings[LOSS]
        judged = bar.p_control, bar.height, bar.shuffled
        rows.append((study.run.name, *judged, *_rise_cells(bar.rise), *_rise_cells(loss.rise)))
    note = (
        f"{_level(studied)} The height of a series is its highest step up: the mean after a checkpoint "
        "minus the mean before, scaled to have equal noise at every checkpoint. So a rise over many "
        "checkpoints counts as a jump does. p is the rank of the run's height among those of its own "
        "shuffled residues, which have no circles; it is exact for any series. Begins: a tenth of the "
        "move between two levels is done. Half way: half of it is done. From-to is a 95% set, for a series "
        "that moves once. The held-out loss has no shuffles, so its fall is dated, from its highest value "
        "on, but not tested."
    )
    return Section(_verdict(studied), columns, tuple(rows), f"{note} {_solution(studied)}")


def _verdict(studied: Sequence[StudiedRun]) -> str:
    """Say in how many runs H1 rises beyond its shuffles."""
    judged = [study.findings[HEADLINE] for study in studied if study.findings[HEADLINE].p_control is not None]
    if not judged:
        return f"Not judged: no run has the {LEAST_DRAWS} shuffles that a level of 5% needs"
    rise_count = sum(finding.found for finding in judged)
    if not rise_count:
        return f"H1 rises beyond its shuffled residues in none of {len(judged):,} runs, at a level of 5%"
    return (
        f"H1 rises beyond its shuffled residues in {rise_count} of {len(judged):,} runs, each at a "
        f"level of 5%"
    )


def _level(studied: Sequence[StudiedRun]) -> str:
    """Return a sentence on the power of so many runs, and on the result without topology."""
    judged = [study for study in studied if study.findings[HEADLINE].p_control is not None]
    if not judged:
        return "No test was possible."
    rise_count = sum(study.findings[HEADLINE].found for study in judged)
    chance = float(binom.sf(rise_count - 1, len(judged), FALSE_ALARMS))
    power = sum(study.findings[HEADLINE[0], "power"].found for study in judged)
    return (
        f"The series is the longest bar over the plane's radius, for the {KEYS} frequencies with the most "
        f"power at each checkpoint. Without circles, {rise_count} or more of {len(judged):,} runs have "
        f"probability {chance:.2g}. The power share of the same frequencies, which needs no topology, "
        f"passes in {power}."
    )


def detection(studied: Sequence[StudiedRun]) -> Section:
    """Return the results of the rank, the search for changes and the online detector for every series."""
    columns = ("run", "series", "frequencies chosen at", "p among shuffled", "search: first turn", "from",
               "to", "search: p", "online: dated to", "online: raised at")  # fmt: skip
    rows = [
        (study.run.name, _WORDS[measure], CHOICES.get(choice, ""), *_cells(finding))
        for study in studied
        for (choice, measure), finding in study.findings.items()
    ]
    searched = [study.findings[HEADLINE].first is not None for study in studied]
    online = [study.findings[HEADLINE].raised is not None for study in studied]
    loss = [study.findings[LOSS].first is not None for study in studied]
    note = (
        f"The general search for changes finds H1's turn in {sum(searched)} of {len(studied)} runs and that "
        f"of the held-out loss in {sum(loss)}; the online detector raises an alarm on H1 in {sum(online)}. "
        "Neither uses the shuffles, and neither counts a gentle wave of up to three periods as a change; a "
        "rise over twenty checkpoints is just as gentle. Choosing the frequencies at the last checkpoint is "
        "retrospective, and has no shuffles. A turn is a boundary after which the slope on log(step) has the "
        "expected sign (bars rise, second / longest and loss fall) and is steeper than before; from-to is "
        "its 95% set. The online detector dates a change only when it raises the alarm, without an interval."
    )
    return Section("Results of each detector for each series", columns, tuple(rows), note)


def _cells(finding: Detection) -> tuple[float | None, ...]:
    turn = finding.first
    place = (turn.step, turn.low, turn.high) if turn else (None, None, None)
    return (finding.p_control, *place, finding.p, finding.dated, finding.raised)


def _rise_cells(rise: LevelMove | None) -> tuple[float | None, ...]:
    return (None,) * 6 if rise is None else astuple(rise)


def _solution(studied: Sequence[StudiedRun]) -> str:
    """Say how close the last checkpoints are to circles: without circles there is nothing to detect."""
    parts = []
    for study in studied:
        reached = study.bars["last"]["scaled"].iloc[-1] / circle_bar(study.run.residues)
        keys = key_frequencies(study.run.power[-1])
        share = power_of(study.run, "last")[-1]
        parts.append(
            f"{study.run.name}: bars {100 * reached:.0f}% of a circle's, {100 * share:.0f}% of the "
            f"embedding's variance on frequencies {', '.join(map(str, sorted(keys.tolist())))}"
        )
    return f"At the last checkpoint: {'; '.join(parts)}."


def lags(studied: Sequence[StudiedRun]) -> Section:
    """Return how many steps after (negative: before) the held-out loss falls the bars and the power rise."""
    columns = ("run", "series", "compared", "series at", "loss at", "difference", "from", "to",
               "the series moves")  # fmt: skip
    rows: list[tuple[object, ...]] = []
    gaps: dict[tuple[str, str], list[float | None]] = {}
    for measure in (HEADLINE[1], "power"):
        for study in studied:
            for row in _compare(study.findings[HEADLINE[0], measure], study.findings[LOSS]):
                rows.append((study.run.name, _WORDS[measure], *row))
                gaps.setdefault((measure, row[0]), []).append(row[3])
    spacing = max(float(np.diff(study.run.steps).max()) for study in studied)
    notes = [
        f"Difference: the series' step minus the held-out loss's; checkpoints are {spacing:g} steps apart. "
        "From-to combines the ends of both 95% sets."
    ]
    for (measure, compared), values in gaps.items():
        known_lags = np.array([value for value in values if value is not None], float)
        notes.append(_over_runs(_WORDS[measure], compared, known_lags, len(values)))
    return Section("Steps between H1 and the held-out loss", columns, tuple(rows), " ".join(notes))


def _compare(bar: Detection, loss: Detection) -> list[Comparison]:
    rows: list[Comparison] = []
    for name in ("start", "middle"):
        mine, other = _place(bar.rise, name), _place(loss.rise, name)
        if mine is None or other is None:
            here, there = mine[0] if mine else None, other[0] if other else None
            rows.append((name, here, there, None, None, None, "not found"))
            continue
        low, high = mine[1] - other[2], mine[2] - other[1]
        verdict = "after" if low > 0 else "before" if high < 0 else "not distinguishable"
        rows.append((name, mine[0], other[0], mine[0] - other[0], low, high, verdict))
    if bar.raised is None or loss.raised is None:
        rows.append(("online alarm", bar.raised, loss.raised, None, None, None, "not found"))
    else:
        gap = bar.raised - loss.raised
        verdict = "after" if gap > 0 else "before" if gap < 0 else "same checkpoint"
        rows.append(("online alarm", bar.raised, loss.raised, gap, None, None, verdict))
    return rows


def _place(rise: LevelMove | None, part: str) -> tuple[float, float, float] | None:
    """Return when a move starts or is half done, with the 95% set."""
    if rise is None:
        return None
    if part == "start":
        return rise.start, rise.start_low, rise.start_high
    return rise.middle, rise.middle_low, rise.middle_high


def _over_runs(series: str, compared: str, gaps: np.ndarray, runs: int) -> str:
    """State the mean gap over runs; the runs are the independent observations."""
    if not len(gaps):
        return f"{series}, compared at the {compared}: no run has both."
    mean = float(gaps.mean())
    where = "after" if mean > 0 else "before" if mean < 0 else "from"
    sentence = f"Compared at the {compared}, {series} moves {abs(mean):,.0f} steps {where} the held-out loss"
    if len(gaps) == 1:
        return f"{sentence} in the one run that has both; another seed may differ."
    half = float(student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return (
        f"{sentence} on average over {len(gaps):,} of {runs:,} runs "
        f"(95% interval over runs {mean - half:,.0f} to {mean + half:,.0f})."
    )


def false_alarms(studied: Sequence[StudiedRun]) -> Section:
    """Return how often the same detectors fire on planes without circles."""
    columns = ("planes", "series", "draws", "segments fire", "from", "to", "online fires", "from ", "to ",
               "beyond the stated rate")  # fmt: skip
    rows, beyond = [], []
    for kind, name in CONTROLS.items():
        counts = [control(study.run, kind) for study in studied]
        total = sum(study.run.control["draw"].nunique() for study in studied)
        for measure in counts[0]:
            shares = [_share(sum(count[measure][i] for count in counts), total) for i in (0, 1)]
            worse = any(low > FALSE_ALARMS for _, low, _ in shares)
            rows.append((name, _WORDS[measure], total, *shares[0], *shares[1], "yes" if worse else "no"))
            if worse:
                beyond.append(f"{_WORDS[measure]}, {name}")
    note = (
        f"{KEYS} planes of the same embeddings, with the residues permuted (frequencies chosen anew at each "
        "checkpoint, so that the control includes the effect of choosing) or along random directions. "
        f"Both detectors state that they fire in {100 * FALSE_ALARMS:.0f}% of runs without a change; from-to "
        "is the exact binomial 95% interval. Draws of one run share its embedding, so the true uncertainty "
        "is larger. The rank among shuffled residues has no row: 5% of them pass it by construction. "
    )
    note += f"Beyond the stated rate: {'; '.join(beyond)}." if beyond else "None is beyond the stated rate."
    if beyond:
        note += (
            " Such a series also turns for other reasons, such as a change of the norm, so it is not "
            "evidence of circles."
        )
    return Section("Negative control: planes without circles", columns, tuple(rows), note)


def _share(count: int, total: int) -> tuple[float, float, float]:
    return (count / total, *binomial_interval(count, total))


def checkpoints(studied: Sequence[StudiedRun]) -> Section:
    """Return every checkpoint's losses and bars, by both choices of frequencies."""
    columns = ["run", "step", "loss", "held-out loss"]
    columns += [f"{name}, {choice}" for choice in CHOICES for name in ("longest", "/ radius", "ratio")]
    rows = []
    for study in studied:
        cells = [study.bars[choice][name] for choice in CHOICES for name in ("longest", "scaled", "ratio")]
        for i, step in enumerate(study.run.steps):
            values = [study.run.loss[i], study.run.heldout_loss[i], *(cell.iloc[i] for cell in cells)]
            rows.append((study.run.name, int(step), *(float(v) if np.isfinite(v) else None for v in values)))
    note = (
        f"Means over the {KEYS} planes of the frequencies chosen at {CHOICES['own']} (own) or at "
        f"{CHOICES['last']} (last). Longest: in the embedding's units. Ratio: the longest bars over the "
        "second longest (summed over planes; empty if no plane has a second)."
    )
    return Section("Every checkpoint", tuple(columns), tuple(rows), note)
