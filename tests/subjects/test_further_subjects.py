"""A subject that is a folder of the package, as the page describes it, is found and measured in one way."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import toposcope as ts
import toposcope.subjects
from toposcope.cli import main as cli
from toposcope.core.errors import InputError
from toposcope.store import Store
from toposcope.subjects import roster
from toposcope.subjects.measurement import MeasureCall, Prepared
from toposcope.subjects.subject import Subject
from toposcope.watch.watching import Watching, WatchOptions

FOUR = roster.own_subjects()
PAGE = Path(__file__).parents[2] / "docs" / "add-a-subject.md"


def _write(runs: Path, step: int) -> None:
    place = runs / f"step{step}"
    place.mkdir(parents=True)
    weights = np.random.default_rng(step).normal(size=(6, 8)).astype(np.float32)
    save_file({"fc.weight": weights}, place / "model.safetensors")


def _forget() -> None:
    roster.own_subjects.cache_clear()
    roster.subjects.cache_clear()


@pytest.fixture
def outliers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put the page's subject into a folder of `subjects`, and write two checkpoints; return their folder."""
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    (block,) = re.findall(r"```python\n# outliers\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    folder = tmp_path / "subjects" / "outliers"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "subject.py").write_text(block, encoding="utf-8")
    monkeypatch.setattr(toposcope.subjects, "__path__", [*toposcope.subjects.__path__, str(folder.parent)])
    monkeypatch.setattr(roster, "FOLDERS", (*roster.FOLDERS, "outliers"))
    _forget()
    for step in (0, 10):
        _write(tmp_path / "runs", step)
    yield tmp_path / "runs"
    _forget()
    for name in ("toposcope.subjects.outliers", "toposcope.subjects.outliers.subject"):
        sys.modules.pop(name, None)


def _typed(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([*map(str, words)])
    return int(ended.value.code or 0)


def test_the_command_line_finds_the_folder(outliers: Path) -> None:
    told = CliRunner().invoke(cli.toposcope, ["--help"]).output
    assert "  outliers " in told
    own = cli.toposcope.get_command(click.Context(cli.toposcope), "outliers")
    assert own is not None
    assert "--quantile" in CliRunner().invoke(own, ["--help"]).output


def test_the_help_imports_only_a_subject_without_a_command(outliers: Path) -> None:
    """The help of an installation with a fifth subject imported every subject: .17 to 1.25 s."""
    program = """
import importlib.metadata, sys
from toposcope.core import plugins

point = importlib.metadata.EntryPoint("outliers", "outliers:SUBJECT", "toposcope.subjects")
plugins.entry_points = lambda group: [point] if group == "toposcope.subjects" else []

import click
from toposcope.cli.main import toposcope as command

assert "outliers" in command.list_commands(click.Context(command))
subjects = [name for name in sys.modules if name.startswith("toposcope.subjects.")]
assert not [name for name in subjects if name.endswith(".subject") and name.count(".") == 3], subjects
"""
    (outliers.parent / "outliers.py").write_text(
        (outliers.parent / "subjects" / "outliers" / "subject.py").read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    paths = [str(Path(toposcope.__file__).parents[1]), str(outliers.parent)]
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    )


def test_a_subject_that_needs_texts_gets_them_from_the_call(outliers: Path, tmp_path: Path) -> None:
    subject = roster.subject_of("outliers")
    needy = dataclasses.replace(
        subject, needs=("texts",), measure=f"{__name__}:measured", uses=("texts", "limit")
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(roster, "own_subjects", lambda: (*FOUR, needy))
        roster.subjects.cache_clear()
        store = ts.measure(outliers, tmp_path / "a", features="outliers", texts="some.txt", limit=3)
        assert store.recipe == {"probe": "outliers", "texts": "some.txt", "limit": 3}
        with pytest.raises(InputError, match=r"do not use it; it is for landscape"):
            ts.measure(outliers, tmp_path / "b", features="outliers", recipe="seed004")
    roster.subjects.cache_clear()


def measured(call: MeasureCall) -> Prepared:
    """Measure outliers, and state the texts in the recipe."""
    subject = roster.subject_of("outliers")
    assert subject.make is not None
    probes = subject.make(subject.settings(call.options))
    stated = {"probe": "outliers", "texts": call.request.texts, "limit": call.request.limit}
    return Prepared(call.find(), probes, stated)


def test_every_way_writes_one_recipe(outliers: Path, tmp_path: Path) -> None:
    """The store of a watch was one of weights, and Python refused to continue it."""
    with Watching(outliers, WatchOptions(features=["outliers"], rest=0, out=tmp_path / "watched")) as watch:
        watch.once()
    with ts.Monitor(tmp_path / "inside", features=["outliers"]) as monitor:
        recipe = monitor.store.recipe
    assert _typed("weights", outliers, "--features", "outliers", "--out", tmp_path / "a", "--no-audit") == 0
    assert _typed("outliers", outliers, "--out", tmp_path / "b", "--no-audit") == 0
    store = ts.measure(outliers, tmp_path / "c", features="outliers")
    stores = [Store.open(tmp_path / name) for name in ("watched", "a", "b")]
    assert [one.recipe for one in stores] == [store.recipe] * 3 == [recipe] * 3
    assert store.recipe == {"probe": "outliers", "quantile": 0.5}
    watched = ts.measure(outliers, tmp_path / "watched", features="outliers").features(feature="outlier")
    assert watched["value"].tolist() == store.features(feature="outlier")["value"].tolist()
    # the watch of a store goes on with what the store holds
    _write(outliers, 20)
    with Watching(tmp_path / "watched", WatchOptions(rest=0)) as again:
        again.once()
    assert Store.open(tmp_path / "watched").features(feature="outlier")["step"].tolist() == [0, 10, 20]


def test_a_mix_is_refused_in_every_way(
    outliers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "'cheap,outliers': outliers cannot be combined with other features; name only it"
    with pytest.raises(InputError, match=message):
        ts.measure(outliers, tmp_path / "s", features=["cheap", "outliers"])
    with pytest.raises(InputError, match=message):
        Watching(outliers, WatchOptions(features=["cheap", "outliers"], out=tmp_path / "s"))
    typed = ("weights", outliers, "--out", tmp_path / "s", "--features")
    assert _typed(*typed, "cheap,outliers") == 2
    assert f"--features {message}" in capsys.readouterr().err
    for option, value in (("--points", 20), ("--nulls", 0)):
        assert _typed(*typed, "outliers", option, value) == 2
        refused = f"{option} {value}: --features 'outliers' have settings of their own; leave it out, or use"
        assert refused in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("features", [WatchOptions.features, ("outliers",)])
def test_a_watch_goes_on_with_the_settings_of_a_store(
    outliers: Path, tmp_path: Path, features: tuple[str, ...]
) -> None:
    """The watch of a store that was measured with another quantile was refused for its other settings."""
    assert _typed("outliers", outliers, "--quantile", 0.9, "--out", tmp_path / "o", "--no-audit") == 0
    _write(outliers, 20)
    with Watching(outliers, WatchOptions(features=features, rest=0, out=tmp_path / "o")) as watch:
        watch.once()
    store = Store.open(tmp_path / "o")
    assert store.recipe == {"probe": "outliers", "quantile": 0.9}
    assert store.features(feature="outlier")["step"].tolist() == [0, 10, 20]


def test_a_watch_of_another_subject_advises_no_features_beside_it(outliers: Path, tmp_path: Path) -> None:
    """The watch advised to add updates to --features, which it refuses beside this subject."""
    with Watching(outliers, WatchOptions(features=["outliers"], rest=0, out=tmp_path / "o")) as watch:
        (said,) = [one for one in watch.once().not_judged if one.startswith("updates were not measured")]
    assert "for later checkpoints" not in said


def test_a_request_is_made_from_a_recipe_that_was_written_as_json() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Request:
        layers: tuple[int, ...] = ()
        share: float = 0.5

    subject = Subject(
        name="mine", heading="Mine", topology="mine", title="Mine.", null="nothing", request=Request,
        make=lambda _: [],
    )  # fmt: skip
    wanted = Request(layers=(1, 2))
    assert subject.request_of(json.loads(json.dumps(subject.recipe(wanted)))) == wanted
    assert subject.request_of({"probe": "mine", "of_another_version": 1}) == Request()
