"""Many public runs with no known fault: alarms, forecasts, and how far seeds differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toposcope.core.distributions import binomial_interval
from toposcope.core.types import CUTS
from toposcope.studies.claims import Claim, Standing, claims_section, holds, within
from toposcope.studies.public_runs.logs import PublicRun, read_runs
from toposcope.studies.public_runs.rates import (
    LEAST_LOSSES,
    OURS,
    Alarms,
    Differences,
    ForecastCoverage,
    SharedStep,
    alarms,
    coverage_interval,
    differences,
    forecasts_held,
    shared_spikes,
)
from toposcope.studies.sections import Section
from toposcope.studies.versions import versions

NOISE = 0.05
"""A published estimate of the noise of a single run: a smaller improvement would prove nothing."""
MANY = 20
"""With fewer runs, spikes, or recipes with seeds, a share of one in ten or twenty is not judged."""
MOST = 200
"""The most runs that are forecast: a share of .9 of them has a standard error of .02."""
_SHOWN = 12
"""The steps with the smallest p that the page lists."""


def reproduce(folder: Path, *, most: int = MOST, quiet: bool = False) -> list[Section]:
    """Judge alarms, forecasts, spikes and seeds on the runs of a folder; no fault of these runs is known.

    At most `most` runs are forecast, one from each folder; each takes a second.

    Raises
    ------
    InputError
        When the folder holds no log of a loss.
    """
    runs = read_runs(folder)
    spoken = alarms(runs, quiet=quiet)
    held = forecasts_held(runs, most=most, quiet=quiet)
    shared, worth = shared_spikes(runs), differences(runs)
    return [
        claims_section(_claims(spoken, held, shared, worth)),
        _runs(runs),
        _alarms(spoken),
        _forecasts(held),
        _spikes(shared),
        _differences(worth),
        versions(),
    ]


def _share(count: int, number: int) -> str:
    """Return a share with its exact 95% interval."""
    low, high = binomial_interval(count, number)
    return f"{count} of {number} [{low:.1%}, {high:.1%}]"


def _claims(
    spoken: Alarms, held: Sequence[ForecastCoverage], shared: Sequence[SharedStep], worth: Differences
) -> list[Claim]:
    return [_stopped(spoken), _inside(held), _shared(shared), _noise(worth)]


def _stopped(spoken: Alarms) -> Claim:
    stop, five = spoken.counts[OURS[0]], spoken.counts["5 standard deviations"]
    low, high = binomial_interval(stop, spoken.runs)
    return Claim(
        text="The verdict is stop for at most 1 healthy run in 700",
        source="wanted",
        here=f"{stop} of {spoken.runs}; the rule of five standard deviations fires in {five}",
        statistic=f"95%: {low:.2%} to {high:.2%}; 2,600 runs without a stop would show .14%",
        judgement=within(low, high, 0.0, 1 / 700),
    )


def _inside(held: Sequence[ForecastCoverage]) -> Claim:
    inside, number = sum(score.inside for score in held), sum(score.intervals for score in held)
    low, high = coverage_interval(held)
    runs = max((score.runs for score in held), default=0)
    return Claim(
        text="90% intervals contain 87 to 93% of the final losses",
        source="wanted",
        here=f"{inside} of {number}",
        statistic=f"95% over {runs:,} runs: {low:.1%} to {high:.1%}",
        judgement=within(low, high, 0.87, 0.93) if runs >= MANY else Standing.UNTESTED,
    )


def _shared(shared: Sequence[SharedStep]) -> Claim:
    common = [spike for spike in shared if spike.spikes > 1 and spike.p_holm < 0.05]
    spikes = sum(spike.spikes for spike in shared)
    return Claim(
        text="A spike has its cause in its own run",
        source="often assumed",
        here=f"{len(common):,} steps at which runs spike together",
        statistic=f"{sum(spike.spikes for spike in common)} of {spikes} spikes are at these steps (Holm "
        f"over all "
        f"steps); {MANY} spikes are needed to say that none is shared",
        judgement=Standing.FAILS if common else holds(True) if spikes >= MANY else Standing.UNTESTED,
    )


def _noise(worth: Differences) -> Claim:
    share, low, high = worth.beyond(NOISE)
    if worth.groups < MANY:
        return Claim(
            text=f"An improvement below {NOISE} is within the noise of a single run",
            source=f"{NOISE}",
            here=f"{worth.groups} recipes with two seeds or more",
            statistic=f"{MANY} are needed to state a share",
            judgement=Standing.UNTESTED,
        )
    return Claim(
        text=f"An improvement below {NOISE} is within the noise of a single run",
        source=f"{NOISE}",
        here=f"two seeds of one recipe differ by more in {share:.1%} of pairs",
        statistic=f"95% over recipes: {low:.1%} to {high:.1%}; the claim needs 5% or more; 95% of the "
        f"differences are below {worth.quantile(0.95):.4f}",
        judgement=within(low, high, 0.05, 1.0),
    )


def _runs(runs: Sequence[PublicRun]) -> Section:
    losses = np.array([len(run.log) for run in runs])
    rows = (
        ("runs with a loss", len(runs)),
        ("folders", len({run.group for run in runs})),
        ("median number of losses", int(np.median(losses))),
        (f"runs with more than {LEAST_LOSSES} losses", int((losses > LEAST_LOSSES).sum())),
    )
    return Section("What was read", ("what", "number"), rows, "No fault of these runs is known.")


def _alarms(spoken: Alarms) -> Section:
    rows = [(rule, _share(count, spoken.runs)) for rule, count in spoken.counts.items() if spoken.runs]
    return Section(
        "False alarms",
        ("rule", "runs in which it fires [95%]"),
        tuple(rows),
        f"Each log of more than {LEAST_LOSSES} losses was read to its end. Plain rules compare each "
        f"loss with the {LEAST_LOSSES} before it.",
    )


def _forecasts(held: Sequence[ForecastCoverage]) -> Section:
    rows = [
        (f"{score.cut:.0%}", score.runs, f"{100 * score.error:.1f}", f"{100 * score.last_value:.1f}",
         _share(score.inside, score.intervals) if score.intervals else "", f"{100 * score.half_width:.1f}")
        for score in held
    ]  # fmt: skip
    return Section(
        "Forecasts from a run alone, without its plan",
        (
            "after",
            "runs",
            "error, %",
            "last value, %",
            "final losses inside the 90% interval [95%]",
            "half-width, %",
        ),
        tuple(rows),
        "One random run of each folder, with 20 losses or more, is forecast after "
        f"{', '.join(f'{cut:.0%}' for cut in CUTS)} of its steps. "
        "Errors are means of the absolute error; half-widths are means, in log loss.",
    )


def _spikes(shared: Sequence[SharedStep]) -> Section:
    most = sorted(shared, key=lambda spike: spike.p)[:_SHOWN]
    rows = [(spike.step, spike.spikes, spike.logged, spike.expected, spike.p_holm) for spike in most]
    return Section(
        "Steps at which many runs spike",
        ("step", "runs that spike", "runs that log it", "expected", "p, Holm"),
        tuple(rows),
        "A spike is a loss of 1.2 times the median of the ten before it, or more. Expected: the runs that "
        "log the step times the share of all losses that are spikes. A shared spike comes from the data, "
        "which these runs read in the same order.",
    )


def _quantiles(worth: Differences) -> tuple[float, ...]:
    """Return the shares of pairs for which there are enough recipes."""
    return tuple(share for share in (0.5, 0.8, 0.9, 0.95, 0.99) if worth.groups * (1 - share) >= 1)


def _differences(worth: Differences) -> Section:
    rows = [(f"{share:.0%}", worth.quantile(share)) for share in _quantiles(worth)] if worth.groups else []
    return Section(
        "How far two seeds differ",
        ("share of pairs", "differ by less than"),
        tuple(rows),
        f"{worth.runs} runs of {worth.groups} recipes whose paths differ only in the seed; the loss is the "
        "mean of the last tenth before the last step that all seeds have. All recipes have equal weight. "
        f"Pooled standard deviation of one seed: {worth.sd:.4f}.",
    )
