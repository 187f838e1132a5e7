"""The documentation's own probe works as it stands there, and is found everywhere without another line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Feature, RunRecord
from toposcope.sources import open_series
from toposcope.sources.layout import RunFolder, write_run
from toposcope.store import Store
from toposcope.study.forecasts.gather import gather_curves
from toposcope.study.table import series_table
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.gradients.probe import gradient_probes
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.snapshot import Snapshot
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep

PAGE = Path(__file__).parents[2] / "docs" / "add-a-feature.md"
LABEL = "longest row / shortest row"
STEPS = range(0, 240, 10)


def _write_run(folder: Path) -> None:
    layout = RunFolder(folder)
    write_run(layout, RunRecord(folder.name, "gpt", 48, 1), extra={})
    layout.checkpoint(0).parent.mkdir()
    noise = rng(name="walk", run=folder.name).standard_normal((len(STEPS), 6, 4)).cumsum(axis=0)
    for place, step in enumerate(STEPS):
        weights = (5.0 + 0.2 * noise[place]).astype(np.float32)
        save_file({"layers.0.mlp.fc1.weight": weights}, layout.checkpoint(step), metadata={"step": str(step)})
    part = layout.metrics_part(0, STEPS[-1] + 1)
    part.parent.mkdir()
    at = np.arange(STEPS[-1] + 1)
    loss = 4.0 * (at + 10.0) ** -0.2 + 0.01 * rng(name="loss", run=folder.name).standard_normal(len(at))
    pd.DataFrame({"run": folder.name, "step": at, "tokens": 8 * at, "loss": loss}).to_parquet(
        part, index=False
    )


def _write_blocks(folder: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None
        (folder / name[1]).write_text(block)


def _install(folder: Path) -> None:
    """Do what an installer does for a package of one module and one entry point."""
    about = folder / "spread-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spread\nVersion: 1.0\n")
    (entry,) = re.findall(
        r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)```", PAGE.read_text(), flags=re.S
    )
    (about / "entry_points.txt").write_text(f"[{entry[0]}]\n{entry[1].replace(chr(34), '')}")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    _write_blocks(tmp_path)
    _install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("spread", None)


def _call(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert ended.value.code in (0, 1)


@pytest.mark.slow
def test_the_pages_code_runs(package: Path) -> None:
    _write_run(package / "runs" / "xl")
    done = subprocess.run(
        [sys.executable, "measure.py"], cwd=package, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table = Store.open(package / "their-store").features(feature="row_spread")
    assert len(table) == 2 * len(STEPS)
    assert set(table["scope"]) == {"matrix", "model"}


@pytest.mark.slow
def test_a_packages_probe_is_found_everywhere(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        _write_run(package / "runs" / name)
    out, page, tables = package / "store", package / "page", package / "tables"
    _call("weights", package / "runs", "--features", "baselines,spread", "--out", out)
    store = Store.open(out)
    column = "spread/row_spread"

    declared = store.catalogue().set_index("feature").loc["row_spread"]
    assert (declared["label"], declared["kind"], declared["primary"]) == (LABEL, "topology", True)
    series = series_table(store.features(), store.metrics(), store.runs(), catalogue=store.catalogue())
    assert series.catalogue.loc[series.catalogue["primary"], "column"].tolist() == [column]

    _call("analyze", out, "--out", tables)
    assert column in set(pd.read_csv(tables / "trends.csv")["column"])

    curves, _ = gather_curves(
        store.metrics(), store.runs(), features=store.features(), catalogue=store.catalogue()
    )
    assert all(column in curve.features for curve in curves)

    _call("report", out, "--out", page)
    assert LABEL in (page / "index.html").read_text(encoding="utf-8")
    assert any(LABEL in path.read_text(encoding="utf-8") for path in page.rglob("*correlations*.svg"))

    _call("export", out, "--out", package / "export", "--format", "csv")
    assert "row_spread" in set(pd.read_csv(package / "export" / "features.csv")["feature"])
    assert LABEL in set(pd.read_csv(package / "export" / "catalogue.csv")["label"])
    capsys.readouterr()


def test_a_probe_is_found_by_its_module_and_by_its_entry_point(package: Path) -> None:
    for name in ("spread", "spread:Spread"):
        (probe,) = weight_probes([name], WeightOptions())
        assert [feature.label for feature in probe.features] == [LABEL]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("holes", "features 'holes': no such probe; use cheap, .*, spread, or MODULE:CLASS"),
        (
            "no_such_module:Probe",
            "features 'no_such_module:Probe': ModuleNotFoundError: .*; give MODULE:CLASS",
        ),
        ("spread:Nothing", "features 'spread:Nothing': .* has no attribute 'Nothing'"),
        ("spread:SPREAD", "features 'spread:SPREAD': not a probe; derive it from toposcope.Probe"),
        ("bad:Mute", "features 'bad:Mute': the probe declares no feature"),
        ("bad:Twin", "features 'rips': toposcope has a probe of this name"),
        ("bad:Dotted", "features 'bad:Dotted': the name 'a.b' may contain only letters, digits, - and _"),
        ("bad:Needy", "features 'bad:Needy': .*; give every field of the probe a default"),
    ],
)
def test_what_is_no_probe_is_refused(package: Path, name: str, message: str) -> None:
    (package / "bad.py").write_text(
        "from toposcope import Feature, Probe\n"
        "class Mute(Probe):\n    name = 'mute'\n    def measure(self, snapshot): ...\n"
        "class Twin(Mute):\n    name = 'rips'\n    features = (Feature('x', 'x'),)\n"
        "class Dotted(Twin):\n    name = 'a.b'\n"
        "class Needy(Mute):\n    def __init__(self, size): ...\n"
    )
    sys.modules.pop("bad", None)
    with pytest.raises(InputError, match=message) as refused:
        weight_probes([name], WeightOptions())
    assert "\n" not in str(refused.value)


def test_a_probe_without_fields_cannot_measure_gradients() -> None:
    class Plain(Probe):
        name, features = "plain", (Feature("x", "x"),)

        def measure(self, snapshot: Snapshot) -> Measured:
            return Measured()

    with pytest.raises(InputError, match="probe 'plain' cannot measure gradients; make it a dataclass"):
        gradient_probes([Plain()])


def test_a_row_that_was_not_declared_is_a_failure(package: Path) -> None:
    (package / "sly.py").write_text(
        "from toposcope import Feature, Probe, Row\n"
        "from toposcope.subjects.base import Measured\n"
        "class Sly(Probe):\n"
        "    name, features = 'sly', (Feature('x', 'x'),)\n"
        "    def measure(self, snapshot):\n"
        "        at = snapshot.checkpoint\n"
        "        return Measured([Row(at.run, at.step, 'sly', 'y', 1.0)])\n"
    )
    _write_run(package / "runs" / "a")
    probes = weight_probes(["sly:Sly"], WeightOptions())
    store = Store.create(package / "store", recipe={})
    report = sweep(open_series(package / "runs"), probes, store, execution=Execution(quiet=True, audit=False))
    assert len(report.failures) == len(STEPS)
    assert "probe 'sly' measured 'y' without declaring it; add a Feature" in report.failures[0].note
