from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.cli.main import main
from toposcope.forecasting import Curve, curve_from_metrics
from toposcope.logs.schedule import constant, cosine, drop, stable_decay

SEED_SIZES = {"tiny-3k": 2936, "small-7k": 7408, "med-21k": 20640, "large-46k": 46368, "xl-97k": 97200}


def made_family(sizes=6, steps=2000, noise=0.004, seed=0, horizon=None) -> list[Curve]:
    """Runs of one law L(N, t) on one cosine schedule, with noise in every logged loss."""
    plan = cosine(peak=1e-3, last=1e-5, steps=steps, warmup=50)
    random = np.random.default_rng(seed)
    step = np.arange(1, steps + 1, dtype=float)
    curves = []
    for i, n in enumerate(np.geomspace(1e4, 1e6, sizes)):
        clean = 1.5 + 12 * n**-0.25 + (2.0 + 0.2 * np.log10(n)) * (plan.area(step) * 1e3) ** -0.4
        clean -= 40.0 * (1e-3 - plan.at(step))
        table = pd.DataFrame({"step": step, "loss": clean * np.exp(random.normal(0, noise, steps))})
        table["learning_rate"] = plan.at(step)
        curves.append(curve_from_metrics(f"run{i}", table, parameters=int(n), horizon=horizon))
    return curves


@pytest.fixture(scope="session")
def family() -> list[Curve]:
    return made_family()


@pytest.fixture(scope="session")
def seed_curves(shared_data: Path) -> list[Curve]:
    curves = []
    for name, parameters in SEED_SIZES.items():
        log = pd.DataFrame(json.loads((shared_data / "seed_runs" / name / "training_log.json").read_text()))
        curves.append(
            curve_from_metrics(name, log.rename(columns={"lr": "learning_rate"}), parameters=parameters)
        )
    return curves


@pytest.fixture(scope="session")
def gemstones(shared_data: Path) -> list[Curve]:
    table = pd.read_csv(shared_data / "curves" / "gemstones" / "hot_width_le_768.csv")
    table = table.rename(columns={"final_loss": "loss"})
    return [
        curve_from_metrics(str(name), rows, parameters=int(rows["params_active_precise"].iloc[0]))
        for name, rows in table.groupby("run_name")
    ]


@pytest.fixture(scope="session")
def annealed(shared_data: Path):
    """Return a loader: (size in millions, name) -> the curve with its planned schedule."""
    peak = {"peak": 3e-4, "warmup": 2160}
    plans = {
        "constant_24000": constant(steps=24000, **peak),
        "constant_72000": constant(steps=72000, **peak),
        "cosine_24000": cosine(last=3e-5, steps=24000, **peak),
        "cosine_72000": cosine(last=3e-5, steps=72000, **peak),
        "wsd_20000_24000": stable_decay(last=3e-5, decay_from=20000, steps=24000, **peak),
        "wsdld_20000_24000": stable_decay(
            last=3e-5, decay_from=20000, steps=24000, exponential=False, **peak
        ),
        **{f"wsdcon_{k}": drop(last=k * 1e-5, at=8000, steps=16000, **peak) for k in (3, 9, 18)},
    }

    def load(size: int, name: str) -> Curve:
        path = shared_data / "curves" / "multipowerlaw" / f"csv_{size}" / f"{name}.csv"
        table = pd.read_csv(path).rename(columns={"lr": "learning_rate"})
        last = int(table["step"].iloc[-1])
        return curve_from_metrics(
            f"{size}M {name}", table, schedule=plans[name], horizon=last, parameters=size * 10**6
        )

    return load


@pytest.fixture
def call(capsys, monkeypatch):
    """Run `toposcope forecast ...` as a user does: (exit code, standard output, standard error)."""
    monkeypatch.delenv("COLUMNS", raising=False)  # lines as long as they are, as in a file

    def run(*arguments) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in ("forecast", *arguments)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
