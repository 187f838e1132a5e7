"""Forty public logs with known losses, and what reading a log imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from toposcope.logs import read_log

DATA = Path(os.environ.get("TOPOSCOPE_TEST_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
LOGS = DATA / "logs" / "parameter_golf"


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"{LOGS} is absent")
def test_forty_public_logs_have_the_steps_losses_and_plans_that_were_read_from_them():
    folder = DATA / "curves" / "parameter_golf"
    runs, curves = (pd.read_csv(folder / name) for name in ("runs.csv.gz", "curves.csv.gz"))
    known, found = [], []
    for file in sorted(LOGS.iterdir()):
        request, name = re.fullmatch(r"pr(\d+)_(.*)", file.name).groups()
        (run,) = read_log(file).runs  # two of them have their run twice
        mine = runs[(runs["pr"] == int(request)) & runs["path"].str.endswith(f"/{name}")]
        known += [file.name] if len(mine) else []
        for one, planned in zip(mine["run"], mine["planned_steps"], strict=True):
            wanted = curves[curves["run"] == one]
            same = [
                wanted.dropna(subset=[old]).set_index("step")[old].to_dict()
                == run.table.reindex(columns=["step", new]).dropna().set_index("step")[new].to_dict()
                for old, new in (("train_loss", "loss"), ("val_loss", "heldout_loss"))
                if wanted[old].notna().any()  # the curves lack one log's losses, which it calls otherwise
            ]
            if all(same) and run.planned_steps == planned:
                found.append(file.name)
    assert len(known) == 37
    assert found == known


def test_a_log_is_read_without_torch_and_without_what_draws(tmp_path):
    (tmp_path / "a.log").write_text("step:1/9 train_loss:6.5\nstep:2/9 train_loss:6.25\n")
    script = (
        "import sys; from toposcope.logs import read_log; read_log(sys.argv[1]).said; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    call = [sys.executable, "-c", script, str(tmp_path / "a.log")]
    loaded = set(subprocess.run(call, capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {"torch", "transformers", "matplotlib", "numba", "scipy", "sklearn", "gudhi"}
