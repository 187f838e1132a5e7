"""Table 8 on a random start of the Pythia-14m shape, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.studies.seed004 import pythia14m


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """Two random starts of Pythia-14m's blocks; its embeddings, which are left out, are kept small."""
    from toposcope.training.neox import NeoxPlan, NeoxShape, new_model

    folder = tmp_path_factory.mktemp("pythia-14m")
    shape = NeoxShape(name="pythia-14m", width=128, layers=6, heads=4)
    for seed, step in ((0, 0), (1, 1000)):
        new_model(shape, NeoxPlan(vocabulary=64, seed=seed)).save_pretrained(folder / f"step{step}")
    return folder


def test_a_random_start_gives_the_papers_step_0(series):
    features = pythia14m.measure(str(series), quiet=True)
    first = features[features.step == 0]
    persistence = first[first.feature == "neural_persistence"].value.item()
    totals = first[first.feature == "h0_total"].value
    # A random start of this shape: .355 +- .006 and 70.2 +- 1.3; the paper's one start: .338 and 69.7.
    assert persistence == pytest.approx(0.355, abs=4 * 0.006)
    assert totals.mean() == pytest.approx(70.2, abs=3 * 1.3)
    assert len(totals) == pythia14m.DRAWS
    assert totals.nunique() == pythia14m.DRAWS


def test_twenty_four_matrices_enter(series):
    from toposcope.sources import open_series

    opened = open_series(str(series), split="whole")
    names = [m.name for m in opened.matrices(next(iter(opened))) if pythia14m._in_a_block(m)]
    assert len(names) == 24
    assert not any("embed" in name for name in names)


def test_the_command_prints_the_table_and_draws_the_figure(series, tmp_path, capsys):
    call = ["reproduce", "seed004", "--pythia", str(series), "--out", str(tmp_path), "--json"]
    with pytest.raises(SystemExit) as ended:
        main(call)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    rows = json.loads(output.out)["sections"][0]["rows"]
    assert [row["step"] for row in rows] == [0, 1000]
    assert rows[0]["NP: paper"] == 0.338
    assert (tmp_path / "figure7.png").stat().st_size > 5000
    assert (tmp_path / "figure7.svg").is_file()


def test_a_series_without_blocks_is_refused(tmp_path):
    np.savez(tmp_path / "step_1.npz", w=np.ones((3, 3), np.float32))
    with pytest.raises(InputError, match="no matrix in an attention or MLP block"):
        pythia14m.measure(str(tmp_path), quiet=True)
