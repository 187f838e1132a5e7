"""The final loss of a run whose last loss stands where its last stretch begins."""

from __future__ import annotations

import math

import numpy as np

from toposcope.logs.curve import Curve


def test_a_finished_run_that_stops_at_its_last_stretch_has_no_final_loss():
    step = np.arange(1.0, 99.0)
    curve = Curve("run", step, 2 + 1 / step, np.full(98, 1e-3), horizon=100)
    assert curve.finished
    assert math.isnan(curve.final_loss())
