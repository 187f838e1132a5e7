"""A command whose optional package is missing ends with one line: the command that adds it here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.injury import write_recipe, write_series
from tests.patience import PATIENCE
from toposcope.cli.main import main

SMALL = "--points 30 --draws 2 --nulls 2 --no-audit"


def call(line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("extras")
    write_series(folder / "series", runs=1, steps=3)
    write_recipe(folder, steps=20, every=10)
    (folder / "pt").mkdir()
    for step in (0, 10):
        weights = {"layers.0.mlp.fc1.weight": torch.full((16, 8), 0.1) * torch.arange(8)}
        torch.save({"model": weights}, folder / "pt" / f"step_{step}.pt")
    (folder / "texts.txt").write_text("a text that is long enough\nand another one of that length\n")
    assert call(f"weights {folder}/series --out {folder}/store --features baselines {SMALL}") == 0
    return folder


@pytest.mark.parametrize(
    ("missing", "line", "extra"),
    [
        ("ray", f"weights series --out OUT --ray 127.0.0.1:9 {SMALL}", "ray"),
        ("uvicorn", "watch store --port 0", "dashboard"),
        ("xarray", "export store --out OUT --format netcdf", "export"),
        ("netCDF4", "export store --out OUT --format netcdf", "export"),
        ("torch", "train --recipe small.toml --out OUT", "train"),
        ("tokenizers", "train --recipe bpe.toml --out OUT", "train"),
        ("torch", "embeddings pt --texts texts.txt --min-chars 10 --limit 2 --out OUT", "train"),
        ("torch", "landscape series --out OUT", "train"),
        ("torch", "reproduce seed003 --recipe pythia --out OUT", "train"),
        ("huggingface_hub", "weights hf://org/name --out OUT", "hf"),
        ("tensorboard", "watch pt --once --out OUT --sink tensorboard:there", "export"),
        ("wandb", "watch pt --once --out OUT --sink wandb:project", "sinks"),
        ("mlflow", "watch pt --once --out OUT --sink mlflow:there", "sinks"),
        ("trackio", "watch pt --once --out OUT --sink trackio:project", "trackio"),
    ],
)
def test_one_line_with_the_command_that_adds_it(
    missing: str,
    line: str,
    extra: str,
    given: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(given)
    recipe = (given / "small.toml").read_text()
    (given / "bpe.toml").write_text(f'tokenizer = "bpe"\n{recipe}')
    monkeypatch.setitem(sys.modules, missing, None)
    assert call(line.replace("OUT", str(tmp_path / "out"))) == 2
    err = capsys.readouterr().err
    last = err.splitlines()[-1]
    assert last.startswith(f"toposcope: error: {missing} is not installed; install it with: {sys.executable}")
    assert f"[{extra}]'" in last
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists(), "something was written before the package was looked for"


@pytest.mark.slow
def test_the_dashboards_other_package_is_named_as_it_is_installed(given: Path) -> None:
    script = "import sys; sys.modules['starlette'] = None; from toposcope.cli.main import main; main()"
    arguments = [sys.executable, "-c", script, "watch", str(given / "store"), "--port", "0"]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("toposcope: error: starlette is not installed; install it with: ")
    assert len(ended.stderr.splitlines()) == 1


def test_pytorch_files_are_read_without_torch(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert call(f"weights {given}/pt --out {tmp_path}/s --features baselines {SMALL}") == 0
