"""Pictures in a real Jupyter kernel: ours appear, and the user's own still do afterwards."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

pytest.importorskip("ipykernel")
jupyter = pytest.importorskip("jupyter_client.manager")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the warnings of a kernel are its own

MADE = """
import numpy as np, pandas as pd, toposcope as ts
step = np.arange(0, 3000, 100)
frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3})
"""
OURS = (
    "ts.read_log(frame).plot()",
    "ts.check(frame).plot()",
    "ts.rips(np.random.default_rng(0).normal(size=(9, 2)))[0].plot()",
)
THEIRS = "import matplotlib.pyplot as plt; plt.plot([1, 2, 3]);"


def pictures(client, code: str) -> int:
    """Run a cell and return how many pictures it shows."""
    shown: Counter[str] = Counter()

    def count(message) -> None:
        if message["msg_type"] in ("display_data", "execute_result"):
            shown["image/png"] += "image/png" in message["content"]["data"]

    answer = client.execute_interactive(code, output_hook=count, timeout=120)
    assert answer["content"]["status"] == "ok", answer["content"]
    return shown["image/png"]


@pytest.fixture
def client(monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    manager, client = jupyter.start_new_kernel(kernel_name="python3", startup_timeout=120)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("magic", ["", "%matplotlib inline"])
def test_every_plot_shows_one_picture_and_so_does_the_users_own_afterwards(client, magic):
    pictures(client, MADE + magic)
    assert [pictures(client, code) for code in (*OURS, THEIRS, *OURS, THEIRS)] == [1] * 8


def test_a_picture_amid_a_cell_is_shown_too(client):
    pictures(client, MADE)
    assert pictures(client, f"{OURS[0]}; {OURS[1]}; None") == 2
