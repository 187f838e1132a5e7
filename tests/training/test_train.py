from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from tests.patience import PATIENCE
from toposcope import measure
from toposcope.core.errors import InputError, SourceError
from toposcope.recipes import load_training_recipe
from toposcope.sources import layout, open_series
from toposcope.sources.audit import audited
from toposcope.sources.layout import RunFolder, read_run
from toposcope.store.schema import METRICS
from toposcope.subjects.optimizer.features import UPDATE_RMS
from toposcope.training import TrainingStep, files, train
from toposcope.training.schedule import learning_rate

_COMMAND = [sys.executable, "-c", "from toposcope.cli.main import main; main()", "train"]


def _metrics(folder: RunFolder) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for *_, path in folder.metrics_parts()], ignore_index=True)


def _assert_same(first: RunFolder, second: RunFolder) -> None:
    """Same files, same bytes; of the metrics all but the seconds."""
    names = sorted(str(p.relative_to(first.path)) for p in first.path.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(second.path)) for p in second.path.rglob("*") if p.is_file())
    for name in names:
        if name.endswith(".safetensors"):
            assert (first.path / name).read_bytes() == (second.path / name).read_bytes(), name
    a, b = _metrics(first), _metrics(second)
    pd.testing.assert_frame_equal(a.drop(columns="seconds"), b.drop(columns="seconds"), check_exact=True)


@pytest.fixture(scope="module")
def finished(small_recipe: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    results = train(small_recipe, out, overrides={"gradients": True})
    assert [result.status for result in results] == ["trained", "trained"]
    return out


def test_a_run_holds_what_its_layout_says(finished: Path, small_recipe: str) -> None:
    folder = RunFolder(finished / "two-seed7")
    run = read_run(folder)
    assert (run.run, run.family, run.seed) == ("two-seed7", "small", 7)
    recipe = load_training_recipe(str(folder.recipe_file))
    assert recipe == load_training_recipe(small_recipe, {"gradients": True}).of_run("two", 7)
    assert folder.checkpoint_steps() == [0, 4, 8, 12]
    kept = [
        sorted(file.name for file in (folder.path / kind).iterdir()) for kind in ("checkpoints", "gradients")
    ]
    assert kept[0] == kept[1]
    weights = load_file(folder.checkpoint(4))
    np.testing.assert_array_equal(weights["head.weight"], weights["token_emb.weight"])
    assert sum(w.size for w in weights.values()) - weights["head.weight"].size == run.parameters
    with safe_open(folder.checkpoint(4), framework="np") as file:
        metadata = file.metadata()
    metrics = _metrics(folder)
    assert metadata["step"] == "4"
    assert int(metadata["tokens"]) == metrics.tokens[4] == 4 * 4 * 16
    assert float(metadata["heldout_loss"]) == metrics.heldout_loss[4]
    assert list(metrics.columns) == METRICS.names
    assert metrics.step.tolist() == list(range(13))
    assert metrics.step[metrics.heldout_loss.notna()].tolist() == [0, 4, 8, 12]
    assert metrics.loss.iloc[-1] < metrics.loss.iloc[0] - 0.1
    assert (metrics.seconds > 0).all()
    flat = np.concatenate([weights[name].ravel() for name in weights if name != "head.weight"])
    assert metrics.weight_norm[4] == pytest.approx(float(np.linalg.norm(flat)), rel=1e-6)


def test_a_run_records_the_machine_that_decides_its_last_digits(finished: Path) -> None:
    import json

    for run in ("one-seed7", "two-seed7"):
        found = json.loads((finished / run / "run.json").read_text())["machine"]
        assert {"processor", "architecture", "instructions", "threads"} <= set(found)
        assert found["threads"] == "1"
        assert all(isinstance(value, str) for value in found.values())


def test_heldout_loss_and_gradients_can_be_recomputed_from_the_folder(finished: Path) -> None:
    import torch

    from toposcope.training.model import GPT
    from toposcope.training.shapes import GPTShape

    folder = RunFolder(finished / "two-seed7")
    model = GPT(GPTShape(vocabulary=128, context=16, width=12, layers=2, heads=2))
    model.load_state_dict({n: torch.from_numpy(w) for n, w in load_file(folder.checkpoint(8)).items()})
    batches = torch.from_numpy(load_file(folder.heldout_file)["tokens"]).long()
    assert batches.shape == (2, 4, 17)
    losses = [model.loss(batch) for batch in batches]
    assert float(sum(losses).detach()) / 2 == pytest.approx(_metrics(folder).heldout_loss[8], abs=1e-5)
    losses[0].backward()
    gradients = load_file(folder.gradients(8))
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(gradients[name], parameter.grad, atol=1e-6)


def test_a_finished_run_is_skipped_and_left_alone(finished: Path, small_recipe: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    results = train(small_recipe, finished, overrides={"gradients": True}, models=["one"])
    assert [(result.status, result.run.run) for result in results] == [("skipped", "one-seed7")]
    assert results[0].heldout_loss == _metrics(RunFolder(results[0].folder)).heldout_loss.iloc[-1]
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_another_recipes_run_is_refused_by_name(finished: Path, small_recipe: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"one-seed7 was trained with another recipe \(steps 12 there, 13 here"
    ):
        train(small_recipe, finished, overrides={"gradients": True, "steps": 13})
    other = tmp_path / "other.txt"
    other.write_text("something else " * 300)
    with pytest.raises(InputError, match=r"one-seed7 was trained with another recipe \(corpus_sha256"):
        train(small_recipe, finished, overrides={"gradients": True}, corpus=str(other))
    (tmp_path / "out" / "one-seed7" / "notes").mkdir(parents=True)
    with pytest.raises(InputError, match="one-seed7 exists and is not a run folder"):
        train(small_recipe, tmp_path / "out")


@pytest.mark.slow
def test_runs_side_by_side_equal_runs_one_by_one(finished: Path, small_recipe: str, tmp_path: Path) -> None:
    results = train(small_recipe, tmp_path, overrides={"gradients": True}, jobs=2)
    assert [result.status for result in results] == ["trained", "trained"]
    for name in ("one-seed7", "two-seed7"):
        _assert_same(RunFolder(finished / name), RunFolder(tmp_path / name))


def test_seeds_are_replicates(small_recipe: str, tmp_path: Path) -> None:
    results = train(small_recipe, tmp_path, seeds=[1, 2], models=["one"], overrides={"steps": 1})
    assert [result.run.run for result in results] == ["one-seed1", "one-seed2"]
    first, second = (load_file(RunFolder(result.folder).checkpoint(0)) for result in results)
    assert not np.array_equal(first["head.weight"], second["head.weight"])
    assert results[0].loss != results[1].loss


class _CutError(Exception):
    pass


@pytest.mark.parametrize("writes", range(0, 17, 2))
def test_cut_at_any_write_a_run_goes_on_to_the_same_bits(
    writes: int, finished: Path, small_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = writes

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / f".aside-1-{path.name}").write_bytes(content[: len(content) // 2])
            raise _CutError
        layout.write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_bytes", write)
        with pytest.raises(_CutError):
            train(small_recipe, tmp_path, models=["two"], overrides={"gradients": True})
    results = train(small_recipe, tmp_path, models=["two"], overrides={"gradients": True})
    assert [result.status for result in results] == ["trained"]
    _assert_same(RunFolder(finished / "two-seed7"), RunFolder(tmp_path / "two-seed7"))


@pytest.mark.faults
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_and_started_again_a_run_ends_with_the_same_bits(
    jobs: str, small_recipe: str, tmp_path: Path
) -> None:
    options = ["--recipe", small_recipe, "--updates", "600", "--set", "checkpoint_every=20"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(small_recipe, whole, overrides={"steps": 600, "checkpoint_every": 20})
    folder = RunFolder(cut / "two-seed7")
    process = subprocess.Popen(
        [*_COMMAND, *options, "--out", str(cut), "--jobs", jobs], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while len(folder.checkpoint_steps()) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not folder.checkpoint(600).exists()
    _wait_until_quiet(folder)
    done = subprocess.run(
        [*_COMMAND, *options, "--out", str(cut), "--jobs", "1"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in ("one-seed7", "two-seed7"):
        _assert_same(RunFolder(whole / name), RunFolder(cut / name))


def _wait_until_quiet(folder: RunFolder) -> None:
    """Wait until the workers that a killed parent left have noticed; they must not finish the run."""
    steps = folder.checkpoint_steps()
    while True:
        time.sleep(1.0)
        if folder.checkpoint_steps() == steps:
            break
        steps = folder.checkpoint_steps()
    assert 600 not in steps


def test_callbacks_see_live_weights_and_unclipped_gradients(small_recipe: str, tmp_path: Path) -> None:
    seen: list[tuple[int, float, float]] = []
    kept: list[int] = []

    def on_step(event: TrainingStep) -> None:
        parameters = list(event.model.parameters())
        gradient = sum(float((p.grad**2).sum()) for p in parameters if p.grad is not None) ** 0.5
        weight = sum(float((p.detach() ** 2).sum()) for p in parameters) ** 0.5
        seen.append((event.step, gradient - event.grad_norm, weight - event.weight_norm))

    def on_checkpoint(event: TrainingStep) -> None:
        kept.append(event.step)
        assert event.heldout_loss is not None

    train(small_recipe, tmp_path, models=["one"], on_step=on_step, on_checkpoint=on_checkpoint)
    assert [step for step, *_ in seen] == list(range(13))
    assert max(abs(value) for _, *values in seen for value in values) < 1e-4
    assert kept == [0, 4, 8, 12]
    with pytest.raises(InputError, match="callbacks need jobs=1, because they see one run at a time"):
        train(small_recipe, tmp_path, jobs=2, on_step=on_step)


def test_a_diverging_run_is_reported_and_the_next_one_trains(small_recipe: str, tmp_path: Path) -> None:
    text = Path(small_recipe).read_text().replace('name = "one"\nwidth', 'name = "one"\nwidth')
    file = tmp_path / "wild.toml"
    file.write_text(text)
    results = train(
        str(file),
        tmp_path / "out",
        overrides={"learning_rate": 1e30, "gradient_clip": 1e30, "weight_decay": 0.0},
    )
    assert {result.status for result in results} == {"failed"}
    assert "lower learning_rate (now 1e+30); for example `set` learning_rate=5e+29" in results[0].problem
    assert RunFolder(results[0].folder).checkpoint(0).is_file()


def test_a_damaged_state_is_refused_by_name(small_recipe: str, tmp_path: Path) -> None:
    train(small_recipe, tmp_path, models=["one"], overrides={"steps": 4})
    folder = RunFolder(tmp_path / "one-seed7")
    folder.checkpoint(4).unlink()
    whole = folder.state_file.read_bytes()
    for content in (whole[:-7], whole[:-4] + b"\1\2\3\4", b""):
        folder.state_file.write_bytes(content)
        with pytest.raises(SourceError, match=r"resume.safetensors is damaged .*train again"):
            train(small_recipe, tmp_path, models=["one"], overrides={"steps": 4})


def test_a_full_disk_is_one_line_and_loses_nothing(
    small_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from toposcope.cli.main import main

    left = 8
    write = layout.write_bytes

    def full(path: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, content)

    arguments = ["train", "--recipe", small_recipe, "--out", str(tmp_path), "--jobs", "1"]
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_bytes", full)
        with pytest.raises(SystemExit, match="1"):
            main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the disk is full" in error
    assert RunFolder(tmp_path / "one-seed7").checkpoint(4).is_file()
    with pytest.raises(SystemExit, match="0"):
        main(arguments)


@pytest.mark.faults
def test_a_file_that_cannot_be_written_in_a_worker_is_listed(small_recipe: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: it stops the weights, which are larger."""
    train(small_recipe, tmp_path, overrides={"steps": 1})
    for name in ("one-seed7", "two-seed7"):
        RunFolder(tmp_path / name).checkpoint(1).unlink()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    command = [sys.executable, "-c", limit + _COMMAND[2], *_COMMAND[3:]]
    done = subprocess.run(
        [*command, "--recipe", small_recipe, "--out", str(tmp_path), "--updates", "1", "--jobs", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "File too large" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "absent.txt"], "--corpus 'absent.txt': this is neither"),
        (["--models", "ones"], "model 'ones' is not in recipe small: did you mean 'one'"),
        (["--set", "stepz=3"], "unknown key 'stepz': did you mean 'steps'"),
        (["--set", "context=4000"], "is too small"),
        (["--seeds", "a"], "--seeds 'a': not a list of whole numbers"),
        (["--device", "tpux"], "--device 'tpux': unknown device"),
        (["--device", "meta"], "unknown device"),
        (["--jobs", "0"], "--jobs 0: it must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, small_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from toposcope.cli.main import main

    with pytest.raises(SystemExit, match="2"):
        main(["train", "--recipe", small_recipe, "--out", str(tmp_path / "out"), *arguments])
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_command_prints_json(
    small_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from toposcope.cli.main import main

    with pytest.raises(SystemExit, match="0"):
        main(
            [
                "train",
                "--recipe",
                small_recipe,
                "--out",
                str(tmp_path),
                "--updates",
                "1",
                "--jobs",
                "1",
                "--json",
            ]
        )
    printed = json.loads(capsys.readouterr().out)
    assert [(row["run"], row["status"], row["problem"]) for row in printed] == [
        ("one-seed7", "trained", ""),
        ("two-seed7", "trained", ""),
    ]
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--list", "--json"])
    assert {"demo", "seed001", "seed004"} <= {row["name"] for row in json.loads(capsys.readouterr().out)}


def test_subword_runs_keep_their_tokenizer(small_text: Path, tmp_path: Path) -> None:
    changes = {"steps": 2, "context": 8, "batch_size": 2, "vocabulary": 64}
    results = train("seed001", tmp_path, models=["gpt-1k"], corpus=str(small_text), overrides=changes)
    folder = RunFolder(results[0].folder)
    assert folder.tokenizer_file.is_file()
    folder.checkpoint(2).unlink()
    again = train("seed001", tmp_path, models=["gpt-1k"], corpus=str(small_text), overrides=changes)
    assert (again[0].status, again[0].loss) == ("trained", results[0].loss)


@pytest.mark.faults
def test_a_worker_that_dies_is_reported(small_recipe: str, tmp_path: Path) -> None:
    """The script hands its workers something that ends them: it travels by value."""
    script = (
        "import os, sys; from toposcope.training import _pool as pool, train\n"
        "def ended(data):\n"
        "    os._exit(9)\n"
        "pool._trainer = ended\n"
        "results = train(sys.argv[1], sys.argv[2], jobs=2)\n"
        "print([result.problem for result in results])\n"
    )
    file = tmp_path / "script.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, str(file), small_recipe, str(tmp_path / "out")], capture_output=True, text=True
    )
    assert "one-seed7: its process ended with exit code 9; repeat the command" in done.stdout, done.stderr


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="there is no CUDA device")
def test_cuda_trains_and_repeats_itself(small_recipe: str, tmp_path: Path) -> None:
    first = train(small_recipe, tmp_path / "a", device="cuda")
    second = train(small_recipe, tmp_path / "b", device="cuda")
    assert [result.status for result in first] == ["trained", "trained"]
    for one, two in zip(first, second, strict=True):
        _assert_same(RunFolder(one.folder), RunFolder(two.folder))
    on_cpu = train(small_recipe, tmp_path / "c")
    assert first[0].heldout_loss == pytest.approx(on_cpu[0].heldout_loss, abs=1e-3)


def test_a_missing_cuda_device_is_named(small_recipe: str, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(InputError, match=r"device 'cuda': not available on this machine; use `device` cpu"):
        train(small_recipe, tmp_path, device="cuda")


def test_the_state_of_a_run_is_read_as_the_state_to_resume_from(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished / "two-seed7", tmp_path / "run"))
    (answer,) = audited(open_series(str(run), logs=False)).resume
    assert (answer.writer, answer.verdict) == ("toposcope", "resumable")
    assert answer.line.startswith("can be resumed from step 12: weights, moments, step, schedule")
    folder = RunFolder(run)
    state = dict(load_file(folder.state_file))
    with safe_open(folder.state_file, framework="np") as file:
        names = json.loads(file.metadata()["parameters"])
    start = load_file(folder.checkpoint(12))[names[0]].size
    state["second_moment"][start + 1] = np.nan
    files.write_state(folder, 12, state, names)
    (answer,) = audited(open_series(str(run), logs=False)).resume
    assert answer.faults[0].why == f"second moments of {names[1]} are NaN or infinite"


def test_the_optimisers_numbers_are_those_of_the_last_step(small_recipe: str, tmp_path: Path) -> None:
    train(small_recipe, tmp_path / "runs", overrides={"checkpoint_every": 1})
    folder = RunFolder(tmp_path / "runs" / "two-seed7")
    store = measure(str(folder.path), tmp_path / "store", features="optimizer")
    rows = store.features(feature=UPDATE_RMS.name)
    rows = rows[rows["scope"] == "matrix"]
    assert set(rows["step"]) == {12}
    rms = rows.set_index("name")["value"]
    recipe = load_training_recipe(str(folder.recipe_file))
    kept = 1 - learning_rate(recipe, 11) * recipe.weight_decay
    before, after = (load_file(folder.checkpoint(step)) for step in (11, 12))
    assert len(rms) > 4
    for name, value in rms.items():
        moved = before[name] * kept - after[name]
        assert value == pytest.approx(float(np.sqrt(np.mean(np.square(moved)))), rel=1e-3)


def test_cheap_leaves_out_the_one_state_of_a_run(finished: Path, tmp_path: Path) -> None:
    store = measure(str(finished / "one-seed7"), tmp_path / "store", features="cheap")
    assert UPDATE_RMS.name not in set(store.features()["feature"])


def test_a_damaged_state_of_a_run_is_a_fault(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished / "two-seed7", tmp_path / "run"))
    place = RunFolder(run).state_file
    whole = bytearray(place.read_bytes())
    whole[-3] ^= 1
    place.write_bytes(whole)
    (answer,) = audited(open_series(str(run), logs=False)).resume
    assert answer.faults[0].fault == "unreadable-state"
    assert "its content changed after it was written" in answer.line


def test_the_state_of_an_earlier_step_is_said(finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished / "two-seed7", tmp_path / "run"))
    folder = RunFolder(run)
    files.write_state(folder, 8, dict(load_file(folder.state_file)))
    (answer,) = audited(open_series(str(run), logs=False)).resume
    assert (
        answer.line
        == "cannot tell whether step 12 can be resumed: the state to resume from is that of step 8"
    )
