"""What the probes measure stays what it was, number by number."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.store.measured import FILE, KEY, measure, shown


def test_every_number_is_what_it_was(tmp_path: Path) -> None:
    now = shown(measure(tmp_path))
    held = pd.read_csv(FILE, keep_default_na=False, na_values={"value": [""]})
    assert set(now["probe"]) >= {"neural_persistence", "rips", "baselines", "distances", "trajectory"}
    pd.testing.assert_frame_equal(now[[*KEY, "status"]], held[[*KEY, "status"]], check_dtype=False)
    pd.testing.assert_series_equal(now["value"], held["value"], rtol=1e-12, atol=1e-12)
