"""Exponents fitted to the random-feature model, beside the theoretical ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.scaling import PowerLaw, fit_power_law
from toposcope.synthetic.model import Spectrum, converged_loss, draw_problem
from toposcope.synthetic.runs import SyntheticRun

TOLERANCE = 0.03
"""A fitted exponent agrees with the true one within this distance, or within two standard errors."""


def time_exponent(run: SyntheticRun) -> PowerLaw:
    """Fit loss = a t^b + c to a run; t is the sum of learning rates, in 40 equal bins of log t from t = 3.

    The offset absorbs label noise and gradient noise. Use the run of infinite width: at finite width the
    spectrum of the random features departs from k^-b once t is of order N, and so does the exponent.
    """
    time = np.concatenate([[0.0], np.cumsum(run.metrics["learning_rate"].to_numpy())[:-1]])
    loss = run.metrics["loss"].to_numpy()
    edges = np.geomspace(3.0, max(time[-1], 6.0), 41)
    index = np.digitize(time, edges)
    used = [i for i in range(1, len(edges)) if np.any(index == i)]
    t = np.array([np.exp(np.log(time[index == i]).mean()) for i in used])
    return fit_power_law(t, np.array([loss[index == i].mean() for i in used]), offset=True)


def size_exponent(
    spectrum: Spectrum, widths: Sequence[int], *, seeds: Sequence[int] = range(12), outputs: int = 4
) -> PowerLaw:
    """Fit the loss of fully trained models, infinite data, against width; means over draws of features.

    At least 32 modes per feature are kept, whatever the number in the spectrum, because the law bends near
    the cut-off.
    """
    wide = _with_room(spectrum, max(widths))
    losses = []
    for width in widths:
        problems = (draw_problem(wide, width=width, outputs=outputs, seed=seed) for seed in seeds)
        losses.append(np.mean([converged_loss(problem) for problem in problems]))
    return fit_power_law(np.array(widths, float), np.array(losses))


def data_exponent(
    spectrum: Spectrum, amounts: Sequence[int], *, seeds: Sequence[int] = range(12), outputs: int = 4
) -> PowerLaw:
    """Fit the test loss of infinitely wide, fully trained models against the number of training examples."""
    wide = _with_room(spectrum, max(amounts))
    losses = []
    for amount in amounts:
        problems = (draw_problem(wide, width=0, data=amount, outputs=outputs, seed=seed) for seed in seeds)
        losses.append(np.mean([converged_loss(problem) for problem in problems]))
    return fit_power_law(np.array(amounts, float), np.array(losses))


def fitted_exponents(runs: Sequence[SyntheticRun], amounts: Sequence[int]) -> dict[str, PowerLaw]:
    """Fit the exponents of these runs: time, size and data, each if the runs allow it.

    `amounts` are the training examples of each run, 0 for fresh ones. Time comes from the first run of
    infinite width on fresh data. Size and data come from held-out losses at the last checkpoint, means over
    seeds: size from at least three finite widths at the most data, data from at least three amounts at the
    largest width. The runs end after finitely many steps; what they have not learned by then bends both laws.
    """
    last = pd.DataFrame(
        {
            "width": [run.width or np.inf for run in runs],
            "data": [amount or np.inf for amount in amounts],
            "loss": [float(run.metrics["heldout_loss"].dropna().iloc[-1]) for run in runs],
        }
    )
    fits = {}
    limit = [run for run, amount in zip(runs, amounts, strict=True) if not run.width and not amount]
    if limit:
        fits["time"] = time_exponent(limit[0])
    for name, by, held in (("size", "width", "data"), ("data", "data", "width")):
        most = last[(last[held] == last[held].max()) & np.isfinite(last[by])]
        means = most.groupby(by)["loss"].mean()
        if len(means) >= 3:
            fits[name] = fit_power_law(means.index.to_numpy(float), means.to_numpy())
    return fits


def _with_room(spectrum: Spectrum, count: int) -> Spectrum:
    return Spectrum(spectrum.a, spectrum.b, max(spectrum.modes, 32 * count))


def exponent_table(
    spectrum: Spectrum, fits: Mapping[str, PowerLaw], notes: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return one row per fitted exponent: theory, fit, interval, whether they agree.

    They agree within 0.03 or within two standard errors of the fit. `notes` become the reasons.
    """
    notes = {} if notes is None else notes
    theory = spectrum.exponents()
    rows = []
    for name, fit in fits.items():
        free = fit.n - (3 if fit.offset else 2)
        error = (
            (fit.high - fit.low) / 2 / float(student_quantile(0.5 + fit.level / 2, free)) if free > 0 else 0.0
        )
        gap = abs(fit.exponent - theory[name])
        reason = "; ".join(part for part in (fit.reason, notes.get(name, "")) if part)
        rows.append(
            {
                "exponent": name, "theory": theory[name], "fitted": fit.exponent, "low": fit.low,
                "high": fit.high, "n": fit.n, "agrees": bool(gap <= max(TOLERANCE, 2 * error)),
                "status": fit.status, "reason": reason,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
