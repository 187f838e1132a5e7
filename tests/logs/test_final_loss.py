"""The final loss of a run whose log goes on after its last loss."""

from __future__ import annotations

import math

import numpy as np

from toposcope.logs.curve import Curve


def test_a_finished_run_without_a_loss_at_its_end_has_no_final_loss():
    step = np.arange(1.0, 61.0)
    curve = Curve("run", step, 2 + 1 / step, np.full(60, 1e-3), horizon=100, logged=100.0)
    assert curve.finished
    assert math.isnan(curve.final_loss())
