"""Which checkpoints each run has, and where something is wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes

from toposcope.core.drawing.style import MUTED, OKABE_ITO, on_axes, say_empty, step_axis
from toposcope.core.observations import AuditFinding

MOST = 40
"""The most runs that get a line; runs with findings come first."""
_SIGNS = "osD^vP*X"
_LARGEST = 9.0
"""Size of the first kind's signs; later kinds are smaller, so that they hide none at the same place."""


def draw_checkpoints(
    steps: Mapping[str, Sequence[int]], findings: Iterable[AuditFinding] = (), ax: Axes | None = None
) -> Axes:
    """Draw a tick for each checkpoint of every run, and a sign of its kind at each finding.

    Parameters
    ----------
    steps
        The optimiser steps of every run's checkpoints.
    findings
        What is wrong. A finding that concerns no single step is drawn at its run's first.
    """
    listed = list(findings)
    shown = _shown(steps, listed)
    with on_axes(ax, 0.24 * max(len(shown), 3) + 1.1) as ax:
        _draw(ax, steps, shown, listed)
    return ax


def _draw(
    ax: Axes, steps: Mapping[str, Sequence[int]], shown: Sequence[str], findings: Sequence[AuditFinding]
) -> None:
    if not shown:
        say_empty(ax, "no checkpoint")
        return
    for place, run in enumerate(shown):
        ax.plot(steps[run], [place] * len(steps[run]), "|", color=MUTED, markersize=9, gid=f"steps {run}")
    drawn = [
        (run, at, finding.fault)
        for finding in findings
        for run, at in _places(finding, steps)
        if run in shown
    ]
    for number, fault in enumerate(dict.fromkeys(fault for *_, fault in drawn)):
        ax.plot(
            [at for _, at, its in drawn if its == fault],
            [shown.index(run) for run, _, its in drawn if its == fault],
            _SIGNS[number % len(_SIGNS)], color=OKABE_ITO[(number + 1) % len(OKABE_ITO)],
            markersize=max(_LARGEST - 2.5 * number, 4.0),
            markeredgecolor="white", markeredgewidth=0.6, label=fault, zorder=3, clip_on=False,
        )  # fmt: skip
    step_axis(ax, [*(step for run in shown for step in steps[run]), *(at for _, at, _ in drawn)])
    ax.set_yticks(range(len(shown)), shown)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_title(_title(len(shown), len(steps), findings))
    if drawn:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False)


def _shown(steps: Mapping[str, Sequence[int]], findings: Sequence[AuditFinding]) -> list[str]:
    """Return at most `MOST` of the runs, in their order."""
    faulty = {run for finding in findings for run in finding.every_run}
    chosen = set(sorted(steps, key=lambda run: run not in faulty)[:MOST])
    return [run for run in steps if run in chosen]


def _places(finding: AuditFinding, steps: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Return the run and step of everything that a finding stands for, as far as it is known."""
    runs = finding.every_run
    if finding.step is None:
        return [(run, min(steps.get(run, ()), default=0)) for run in runs]
    at = finding.steps or (finding.step,)
    return [(run, step) for run in runs for step in at if len(runs) == 1 or step in steps.get(run, ())]


def _title(shown: int, runs: int, findings: Sequence[AuditFinding]) -> str:
    """Return how much was found; what is only worth knowing is a remark, as in the title above the figure."""
    cut = f" ({shown:,} of {runs:,} runs)" if shown < runs else ""
    count = sum(finding.count for finding in findings)
    noun = "remark" if all(finding.is_remark for finding in findings) else "finding"
    return (f"{count} {noun}{'s' * (count != 1)}" if count else "Checkpoints") + cut
