"""A run alone: the plain law."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.analysis.forecast import curve_from_metrics, forecast
from toposcope.analysis.forecast.plain_law import PlainLaw, after_start, log_bins

STEP = np.arange(10.0, 20_001.0, 10.0)


def run_of(loss, step=STEP, **options):
    return curve_from_metrics("a", pd.DataFrame({"step": step, "loss": loss}), **options)


def law(floor, height, exponent, *, step=STEP, noise=0.0, seed=0):
    random = np.random.default_rng(seed)
    return (floor + height * step**-exponent) * np.exp(random.normal(0, noise, len(step)))


@pytest.mark.parametrize(
    ("floor", "height", "exponent", "within"),
    [
        (2.0, 30.0, 0.5, 0.002),
        (2.0, 3.0, 0.4, 0.005),
        (3.0, 3.0, 0.3, 0.01),
        (1.5, 200.0, 1.0, 0.03),
        (0.0, 5.0, 0.5, 0.005),
        (2.0, 3.0, 0.2, 0.025),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("cut", [0.2, 0.5])
def test_known_laws_are_recovered(floor, height, exponent, within, noise, cut):
    run = run_of(law(floor, height, exponent, noise=noise))
    truth = run_of(law(floor, height, exponent)).final_loss()
    made = PlainLaw().predict(run.seen(cut * run.horizon)).final
    assert made == pytest.approx(truth, rel=within + noise)


def test_the_first_losses_do_not_decide():
    """Losses of 10 before a law begins; a law that had to go through them would be wrong by more."""
    loss = law(2.0, 30.0, 0.5, noise=0.005)
    steep = np.where(STEP <= 500, 10.0, loss)
    finals = [PlainLaw().predict(run_of(values).seen(4000)).final for values in (loss, steep)]
    assert finals[1] == pytest.approx(finals[0], rel=1e-12)


def test_losses_far_off_count_by_their_size_and_not_by_its_square():
    loss = law(2.0, 30.0, 0.5, noise=0.005)
    bent = loss.copy()
    bent[150:160] *= 1.3
    finals = [PlainLaw().predict(run_of(values).seen(4000)).final for values in (loss, bent)]
    assert finals[1] == pytest.approx(finals[0], rel=0.02)


def test_two_losses_after_the_start_are_enough_and_one_is_refused():
    step = np.r_[np.arange(1.0, 11.0), 500.0, 1000.0, 5000.0]
    run = run_of(2.0 + 10.0 * step**-0.5, step)
    assert len(after_start(run.seen(1000)).step) == 2
    made = forecast(PlainLaw(), run.seen(1000))
    assert made.final == pytest.approx(run.final_loss(), rel=1e-3)
    alone = forecast(PlainLaw(), run.seen(500))
    assert (alone.status, alone.reason) == (
        "failed", "run a: 1 losses seen after its start; plain law needs at least 2"
    )  # fmt: skip


def test_bins_of_log_step_keep_every_loss():
    step, log_loss, count = log_bins(
        np.array([1.0, 2.0, 4.0, 4.1, 100.0]), np.array([5.0, 4.0, 3.0, 2.0, 1.0]), 4
    )
    assert count.sum() == 5
    assert np.exp(log_loss) @ count == pytest.approx(15.0)
    assert (np.diff(step) > 0).all()


def test_all_methods_list_it(call, tmp_path):
    step = STEP[:200]
    pd.DataFrame({"step": step, "loss": law(2.0, 30.0, 0.5, step=step)}).to_csv(
        tmp_path / "a.csv", index=False
    )
    code, out, _ = call(tmp_path / "a.csv", "--horizon", "20000", "--methods", "all")
    assert code == 0
    assert any(line.strip().startswith("plain law ") for line in out.splitlines())
