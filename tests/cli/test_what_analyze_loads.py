"""What the analysis of a table loads: no optimiser, no reader of checkpoints, no model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

SCRIPT = """
import sys
from toposcope.cli.main import main
try:
    main(["analyze", {table!r}])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def test_the_analysis_of_a_table_loads_neither_optimisers_nor_checkpoints(tmp_path: Path) -> None:
    step = np.arange(100, 4100, 100)
    g = np.random.default_rng(0)
    table = pd.DataFrame({"step": step, "loss": 2 + 5 * step**-0.4 + g.normal(0, 0.01, 40)})
    table["width"] = np.cumsum(g.normal(0, 1, 40))
    table.to_csv(tmp_path / "table.csv", index=False)
    script = SCRIPT.format(table=str(tmp_path / "table.csv"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    loaded = set(done.stderr.split())
    assert "toposcope.study.analysis" in loaded
    idle = {"scipy.optimize", "scipy.stats", "scipy.signal", "sklearn", "matplotlib", "torch",
            "toposcope.sources.audit", "toposcope.sources.series", "toposcope.models.loading"}  # fmt: skip
    assert not loaded & idle
