"""Can training be resumed: moments, counts, schedule and data of the newest checkpoint are held together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toposcope.api import audit, check
from toposcope.core.errors import SourceError
from toposcope.files.training_state.places import training_state
from toposcope.sources import open_series
from toposcope.sources.audit import audited
from toposcope.sources.optimizer.resumption import MISSING, Facet, Resumption, lines_of

torch = pytest.importorskip("torch")

STEPS = (10, 20, 30)


def _trained(folder: Path, *, rate: float = 1e-3, kind: str = "AdamW") -> None:
    """Train a small network as nanoGPT does, and write ckpt_STEP.pt with model, optimizer and scheduler."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
    )
    matrices = [one for one in model.parameters() if one.ndim > 1]
    vectors = [one for one in model.parameters() if one.ndim < 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = getattr(torch.optim, kind)(groups, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    folder.mkdir(exist_ok=True)
    for step in range(1, STEPS[-1] + 1):
        optimizer.zero_grad()
        rows = torch.randn(8, 16)
        (model(rows) - rows[:, :4]).square().mean().backward()
        optimizer.step()
        schedule.step()
        if step in STEPS:
            state = {
                "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": schedule.state_dict(), "iter_num": step, "rng_state": torch.get_rng_state(),
            }  # fmt: skip
            torch.save(state, folder / f"ckpt_{step}.pt")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "run"
    _trained(folder)
    return folder


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


def _damaged(run: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Resumption:
    now, before = (torch.load(run / f"ckpt_{step}.pt", weights_only=False) for step in (30, 20))
    change(now, before)
    torch.save(now, run / "ckpt_30.pt")
    (answer,) = audited(open_series(str(run), logs=False)).resume
    return answer


def test_a_sound_checkpoint_can_be_resumed_and_says_what_agrees(run):
    answer = audit(str(run))
    (line,) = answer.resume_lines
    assert line == (
        "can be resumed from step 30: weights, moments, step, schedule and RNG are there and agree; "
        "not stored: data position"
    )
    assert answer.ok
    assert not any("not checked: the state of the optimiser" in one for one in answer.coverage.lines)


def test_it_is_said_that_older_states_were_not_examined(run):
    (line,) = audit(str(run)).coverage.lines
    assert (
        line
        == "only the newest of 3 optimiser states was examined; audit an older checkpoint by its own path"
    )
    (line,) = audit(str(run / "ckpt_20.pt")).coverage.lines
    assert line.startswith("one checkpoint of run was read: only what a single file can show was looked for")
    shutil.copytree(run, run.parent / "both" / "other")
    _trained(run.parent / "both" / "run", rate=2e-3)
    lines = audit(str(run.parent / "both")).coverage.lines
    assert lines == [
        "only the newest optimiser state of each run was examined (2 of 6); audit an older checkpoint by its "
        "own path"
    ]


def _state(one: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return dict(one["optimizer"]["state"])


def _zeroed(now: dict[str, Any], before: dict[str, Any]) -> None:
    for fields in _state(now).values():
        fields["exp_avg"].zero_()
        fields["exp_avg_sq"].zero_()


def _of_before(now: dict[str, Any], before: dict[str, Any]) -> None:
    for key, fields in _state(now).items():
        fields.update({name: _state(before)[key][name] for name in ("exp_avg", "exp_avg_sq")})


def _swapped(now: dict[str, Any], before: dict[str, Any]) -> None:
    state = now["optimizer"]["state"]
    state[0], state[1] = state[1], state[0]


def _nan(now: dict[str, Any], before: dict[str, Any]) -> None:
    _state(now)[2]["exp_avg_sq"][0] = float("nan")


def _negative(now: dict[str, Any], before: dict[str, Any]) -> None:
    _state(now)[2]["exp_avg_sq"].neg_()


def _shrunk(now: dict[str, Any], before: dict[str, Any]) -> None:
    _state(now)[2]["exp_avg"].mul_(1000)


def _missing(now: dict[str, Any], before: dict[str, Any]) -> None:
    del now["optimizer"]["state"][3]


def _step_0(now: dict[str, Any], before: dict[str, Any]) -> None:
    for fields in _state(now).values():
        fields["step"] = torch.tensor(0.0)


def _shard(now: dict[str, Any], before: dict[str, Any]) -> None:
    for key in (0, 2):
        now["optimizer"]["state"][key] = _state(before)[key]


def _schedule(now: dict[str, Any], before: dict[str, Any]) -> None:
    now["scheduler"] |= {"last_epoch": 0, "_step_count": 1}


def _masters(now: dict[str, Any], before: dict[str, Any]) -> None:
    shape = _state(now)[0]["exp_avg"].shape
    _state(now)[0]["master_param"] = torch.ones(shape)


@pytest.mark.parametrize(
    ("change", "fault", "words"),
    [
        (_zeroed, "moments-zero", "moments of all 8 tensors are zero, and were not at step 20"),
        (_of_before, "moments-of-another-step", "moments are those of step 20, although the weights moved"),
        (_swapped, "moments-swapped", "moments of 0.weight and 2.weight are in each other's places"),
        (_nan, "moments-not-finite", "second moments of 3.weight are NaN or infinite"),
        (_negative, "moments-negative", "second moments of 3.weight are negative"),
        (_shrunk, "moments-unlike", "first moments of 3.weight are larger than their second moments allow"),
        (_missing, "moments-missing", "moments of 1 of 8 tensors"),
        (_step_0, "updates-of-optimizer", "the optimiser counts 0 updates, and counted 20 at step 20"),
        (_shard, "shard-of-another-step", "are still those of step 20"),
        (_schedule, "schedule-of-another-step", "the schedule of the rate counts 0 updates"),
        (_masters, "masters-unlike-weights", "the master copies of 0.weight are not the weights"),
    ],
)
def test_a_broken_state_is_named_and_the_way_back_is_said(run, change, fault, words):
    answer = _damaged(run, change)
    assert answer.verdict == "not resumable"
    assert answer.faults[0].fault == fault
    assert words in answer.line
    assert answer.earlier == 20


def test_a_check_of_a_broken_state_does_not_say_that_no_problem_was_found(run):
    _damaged(run, _zeroed)
    text = str(check(str(run)))
    assert "no problem was found" not in text
    assert "moments of all 8 tensors are zero" in text
    assert not audit(str(run), cheap=True).ok


def test_a_checkpoint_of_weights_alone_is_not_accused(tmp_path):
    for step in STEPS:
        torch.save({"fc.weight": torch.randn(8, 8)}, tmp_path / f"step_{step}.pt")
    (answer,) = audited(open_series(str(tmp_path), logs=False)).resume
    assert (answer.verdict, answer.has_state) == ("cannot tell", False)
    assert answer.line == "cannot tell whether step 30 can be resumed: it has no optimiser's state"
    assert answer.faults == []


def _without_state(run: Path, step: int) -> None:
    state = torch.load(run / f"ckpt_{step}.pt", weights_only=False)
    torch.save({"model": state["model"], "iter_num": step}, run / f"ckpt_{step}.pt")


def test_a_state_that_only_the_newest_checkpoint_lacks_is_a_fault(run):
    _without_state(run, 30)
    answer = audit(str(run))
    assert not answer.ok
    assert answer.resume_lines == [
        "not resumable from step 30: the optimiser's state is missing, which step 20 has; "
        "step 20 can be resumed"
    ]
    assert "no problem was found" not in str(check(str(run)))


def test_a_trainer_that_writes_the_state_now_and_then_is_not_accused(run):
    for step in (10, 30):
        _without_state(run, step)
    answer = audit(str(run))
    assert answer.ok
    assert answer.resume[0].verdict == "cannot tell"


def test_the_state_of_another_writer_is_said_not_to_be_read(run):
    for step in STEPS:
        folder = run / f"step_{step}"
        folder.mkdir()
        state = torch.load(run / f"ckpt_{step}.pt", weights_only=False)
        torch.save(state["model"], folder / "pytorch_model.bin")
        torch.save({}, folder / "expp_rank_0_mp_rank_00_optim_states.pt")
        (run / f"ckpt_{step}.pt").unlink()
    answer = audited(open_series(str(run), logs=False))
    assert answer.resume[0].verdict == "cannot tell"
    assert "is not read (DeepSpeed's expp_rank_0" in answer.resume[0].line
    assert any("not checked: the state of the optimiser" in one for one in answer.coverage.lines)


def _folders(run: Path, place: Path) -> Path:
    """Write the checkpoints as transformers' Trainer does; return the newest optimizer.pt."""
    for step in STEPS:
        folder = place / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        state = torch.load(run / f"ckpt_{step}.pt", weights_only=False)
        torch.save(state["model"], folder / "pytorch_model.bin")
        torch.save(state["optimizer"], folder / "optimizer.pt")
        torch.save(state["scheduler"], folder / "scheduler.pt")
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "epoch": step / 10}))
    return place / f"checkpoint-{STEPS[-1]}" / "optimizer.pt"


HURT: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "zero bytes": lambda whole: bytes(len(whole)),
    "noise": lambda whole: bytes(byte ^ 0x5A for byte in whole),
}


@pytest.mark.parametrize("kind", HURT)
@pytest.mark.parametrize("alone", [False, True], ids=["a folder", "one file"])
def test_a_damaged_file_of_a_state_is_a_fault(run, tmp_path, kind, alone):
    place = run if alone else tmp_path / "folders"
    file = run / "ckpt_30.pt" if alone else _folders(run, place)
    steps = "".join(f'{{"step": {n / 4}, "loss": {2 + n**-0.5}}}\n' for n in range(1, 121))
    (place / "train.jsonl").write_text(steps)
    (answer,) = audited(open_series(str(place), logs=False)).resume
    assert answer.verdict == "resumable"
    assert "no problem was found" in str(check(str(place)))
    file.write_bytes(HURT[kind](file.read_bytes()))
    (answer,) = audited(open_series(str(place), logs=False)).resume
    assert (answer.verdict, answer.earlier) == ("not resumable", 20)
    assert alone or answer.faults[0].fault == "unreadable-state"
    assert "no problem was found" not in str(check(str(place)))


def test_a_state_is_never_unpickled(tmp_path):
    class Payload:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    state = {"model": {"w": torch.ones(4, 4)}, "optimizer": {"state": {}, "param_groups": []}, "step": 1}
    torch.save({**state, "more": Payload()}, tmp_path / "step_1.pt")
    with pytest.raises(SourceError, match="nothing was run"):
        training_state(str(tmp_path / "step_1.pt"))
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_that_cannot_be_read_is_one_finding(run):
    whole = (run / "ckpt_30.pt").read_bytes()
    (run / "ckpt_30.pt").write_bytes(whole[: len(whole) // 2])
    found = audited(open_series(str(run), logs=False))
    assert [one.fault for one in found.findings] == ["unreadable"]
    assert (found.resume[0].verdict, found.resume[0].earlier) == ("not resumable", 20)


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("Adafactor", "there and agree; not stored: data position"),
        ("SGD", "; the optimiser keeps no moments"),
        ("NAdam", "there and agree; not stored: data position"),
        ("RMSprop", "there and agree; not stored: data position"),
    ],
)
def test_other_optimisers_are_not_accused_and_what_is_not_read_is_said(tmp_path, kind, ends):
    _trained(tmp_path / "run", kind=kind)
    answer = audit(tmp_path / "run")
    [line] = answer.resume_lines
    assert answer.faults == ()
    assert line.startswith("can be resumed from step 30: weights, moments")
    assert line.endswith(ends)


def test_moments_of_which_some_are_in_8_bits_are_said_to_be_read_in_part(run):
    """As bitsandbytes keeps those of matrices, beside whole vectors."""

    def halved(fields: dict[str, Any]) -> dict[str, Any]:
        square = fields["exp_avg_sq"]
        if square.ndim < 2:
            return fields
        state = (square * 1000).to(torch.uint8)
        return {"step": fields["step"], "state1": state, "state2": state, "absmax1": square.amax()[None]}

    for step in STEPS:
        file = run / f"ckpt_{step}.pt"
        saved = torch.load(file, weights_only=True)
        state = saved["optimizer"]["state"]
        saved["optimizer"]["state"] = {key: halved(fields) for key, fields in state.items()}
        torch.save(saved, file)
    answer = audit(run)
    [line] = answer.resume_lines
    assert answer.faults == ()
    assert "3 of 8 moments are in a form that is not read, such as 8 bits" in line


def test_runs_of_one_answer_share_a_line():
    """Five runs without a state were five lines, `xl cannot tell whether step 400 can be resumed`."""
    unsure = Facet("moments", MISSING, "it has no optimiser's state", unsure=True)
    runs = [Resumption(run, 400, "", (unsure,)) for run in "abcd"]
    assert lines_of(runs) == [f"4 runs: {runs[0].line}"]
    assert lines_of(runs[:2]) == [f"a and b: {runs[0].line}"]
