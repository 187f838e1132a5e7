"""The documentation's own probe works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.sources.layout import RunFolder, write_run
from toposcope.store import Store
from toposcope.types import Run

PAGE = Path(__file__).parents[2] / "docs" / "add-a-feature.md"


def test_the_pages_code_runs(tmp_path: Path) -> None:
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None
        (tmp_path / name[1]).write_text(block)
    folder = RunFolder(tmp_path / "runs" / "xl")
    write_run(folder, Run("xl"), extra={})
    folder.checkpoint(0).parent.mkdir()
    for step in range(4):
        weights = np.diag([1.0, 2.0, 3.0 + step]).astype(np.float32)
        save_file({"w": weights}, folder.checkpoint(step), metadata={"step": str(step)})
    done = subprocess.run(
        [sys.executable, "measure.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table = Store.open(tmp_path / "my-store").features()
    assert table.value.tolist() == [3.0, 4.0, 5.0, 6.0]
