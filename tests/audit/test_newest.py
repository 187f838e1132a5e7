"""The newest checkpoint: its content against the one before it, and what was checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.observations import AuditFinding
from toposcope.rules.judgement import judge
from toposcope.sources import open_series
from toposcope.sources.audit import audit, audited

sys.path.insert(0, str(Path(__file__).parent))
from planted import EMB, FC1, HEAD, STEPS, file, walk, write

Tensors = dict[str, np.ndarray]


def _noise(values: np.ndarray) -> np.ndarray:
    return np.random.default_rng(7).normal(size=values.shape) * values.std()


FAULTS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "x 100": (lambda w: 100 * w, "was multiplied by "),
    "x 1e-20": (lambda w: 1e-20 * w, "was multiplied by "),
    "noise": (_noise, "no longer resembles its former values"),
    "denormal": (lambda w: 1e-42 * w, "holds values near "),
}


def _save(folder: Path, suffix: str, step: int, tensors: Tensors) -> None:
    path = folder / f"step_{step}.{suffix}"
    if suffix == "safetensors":
        save_file(tensors, path)
    elif suffix == "npz":
        np.savez(path, **tensors)
    else:
        torch = pytest.importorskip("torch")
        torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, path)


@pytest.mark.parametrize("suffix", ["safetensors", "pt", "npz"])
@pytest.mark.parametrize("count", [2, 5, 10, pytest.param(30, marks=pytest.mark.slow)])
def test_a_fault_of_the_newest_checkpoint_is_found_with_its_factor_and_the_way_back(
    tmp_path: Path, suffix: str, count: int
):
    path = walk(count, "walk", count)
    for step in range(count):
        _save(tmp_path, suffix, 100 * (step + 1), path[step])
    for change, said in FAULTS.values():
        _save(tmp_path, suffix, 100 * count, path[-1] | {FC1: change(path[-1][FC1]).astype(np.float32)})
        for options in ({}, {"cheap": True}, {"newest": True}):
            (found,) = audit(open_series(tmp_path), **options)
            assert (found.tensor, found.step, found.is_remark) == (FC1, 100 * count, False)
            assert said in found.message
            if "multiplied" in said:
                factor = float(found.message.split(" by ")[1].split(" ")[0])
                assert factor == pytest.approx(change(np.ones(1))[0], rel=0.01)
            assert found.message.endswith(f"go back to step {100 * (count - 1):,}")


def test_a_fault_is_found_once_and_not_again_where_the_next_checkpoint_is_sound():
    path = walk(1, "walk", 8)
    path[4] = path[4] | {FC1: 100 * path[4][FC1]}
    found = audit(open_series(dict(enumerate(path))))
    assert [(one.fault, one.step) for one in found] == [("rescaled-tensor", 4)]


def test_most_tensors_of_another_run_are_one_finding():
    path = walk(1, "walk", 8)
    path[-1] = walk(2, "walk", 1)[0]
    (found,) = audit(open_series(dict(enumerate(path))))
    assert (found.fault, found.step, found.tensor) == ("other-weights", 7, "")


def test_newest_judges_the_newest_checkpoint_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "run"
    path = walk(3, "walk")
    path[5] = path[5] | {FC1: 0 * path[5][FC1]}
    write(folder, path)

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as done:
            main(["audit", str(folder), *arguments])
        return int(str(done.value.code)), capsys.readouterr().out

    assert call()[0] == 1
    code, shown = call("--newest")
    assert code == 0
    assert "1 checkpoint of 1 run read: nothing found" in shown
    assert "checked 13 of 13 tensors, 0 skipped" in shown
    last = load_file(file(folder, STEPS[-1]))
    save_file(last | {HEAD: 100 * last[HEAD]}, file(folder, STEPS[-1]), metadata={"step": str(STEPS[-1])})
    code, shown = call("--newest", "--json")
    (found,) = json.loads(shown)["findings"]
    assert (code, found["tensor"], found["remark"]) == (1, HEAD, False)
    assert not ts.audit(folder, newest=True).ok


def test_a_permutation_is_named_only_where_it_is_shown():
    path = walk(1, "walk", 8)
    rows = np.random.default_rng(0).permutation(len(path[-1][FC1]))
    for changed, fault in (
        (path[-1][FC1][rows], "permuted-tensor"),
        (_noise(path[-1][FC1]).astype(np.float32), "replaced-tensor"),
    ):
        states = dict(enumerate([*path[:-1], path[-1] | {FC1: changed}]))
        assert [one.fault for one in audit(open_series(states))] == [fault]


@pytest.mark.parametrize(("source", "copy"), [(0, 2), (2, 0)])
@pytest.mark.parametrize("count", [2, 8])
def test_a_copied_expert_is_a_copy(count: int, source: int, copy: int):
    rng = np.random.default_rng(0)
    names = [f"layers.0.experts.{index}.w1.weight" for index in range(4)]
    now = {name: rng.normal(size=(16, 8)) for name in names}
    states = {}
    for step in range(count):
        states[step] = {name: value.astype(np.float32) for name, value in now.items()}
        now = {name: value + 0.05 * rng.normal(size=value.shape) for name, value in now.items()}
    states[count - 1][names[copy]] = states[count - 1][names[source]].copy()
    (found,) = audit(open_series(states))
    assert (found.fault, f"{found.tensor}.w1.weight") == ("expert-twin", names[copy])
    assert f"equals expert {source} " in found.message


def test_equal_layers_of_one_checkpoint_are_a_remark():
    layer = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    answer = ts.audit({0: {"layers.0.fc.weight": layer, "layers.1.fc.weight": layer.copy()}})
    assert [one.fault for one in answer.remarks] == ["equal-tensors"]
    assert answer.ok


@pytest.mark.parametrize(("factor", "fault"), [(100.0, "odd-norm"), (1e-20, "near-zero-tensor")])
def test_a_single_checkpoint_shows_norms_far_from_their_siblings(factor: float, fault: str):
    rng = np.random.default_rng(0)
    state = {f"layers.{n}.fc.weight": rng.normal(size=(16, 8)).astype(np.float32) for n in range(4)}
    sound = ts.audit({0: state})
    assert sound.ok
    assert "one checkpoint" in " ".join(sound.coverage.lines)
    state["layers.2.fc.weight"] *= np.float32(factor)
    assert [(one.fault, one.tensor) for one in ts.audit({0: state}).findings] == [
        (fault, "layers.2.fc.weight")
    ]


def test_a_jump_is_a_remark_and_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = walk(3, "walk")
    moved = np.random.default_rng(0).normal(size=path[0][FC1].shape).astype(np.float32)
    for state in path[10:]:
        state[FC1] = state[FC1] + np.float32(0.4) * moved
    write(tmp_path / "run", path)
    (found,) = audit(open_series(tmp_path / "run"))
    assert (found.fault, found.is_remark) == ("jump", True)
    with pytest.raises(SystemExit) as done:
        main(["audit", str(tmp_path / "run")])
    assert done.value.code == 0
    assert "1 remark, and no fault, in" in capsys.readouterr().out


def test_a_remark_is_noticed_and_a_fault_is_a_ground():
    jump, scaled = (AuditFinding("a", 7, "w", "moved", fault=fault) for fault in ("jump", "rescaled-tensor"))
    assert judge(audit=[jump], losses=90).level == "all right"
    assert judge(audit=[jump, scaled], losses=90).level == "look"


def test_what_was_not_read_is_said_with_its_reason(tmp_path: Path):
    torch = pytest.importorskip("torch")
    state = {name: torch.from_numpy(value) for name, value in walk(1, "walk", 1)[0].items()}
    state["meta.weight"] = torch.empty(4, 4, device="meta")
    state["sparse.weight"] = torch.eye(4).to_sparse()
    state["complex.weight"] = torch.eye(4, dtype=torch.complex64)
    for step in (100, 200):
        torch.save({"model": state, "optimizer": {"state": {}}}, tmp_path / f"step_{step}.pt")
        state = {name: value if value.is_sparse else value * 1.01 for name, value in state.items()}
    seen = audited(open_series(tmp_path)).coverage
    assert seen.line == "checked 13 of 16 tensors, 3 skipped"
    assert "complex64" in seen.skipped["complex.weight"]
    assert "meta device" in seen.skipped["meta.weight"]
    assert "sparse" in seen.skipped["sparse.weight"]
    assert any("the state of the optimiser (optimizer)" in line for line in seen.lines)


@pytest.mark.parametrize(
    ("options", "steps"), [({}, {100, 200}), ({"cheap": True}, {100, 200}), ({"newest": True}, {200})]
)
def test_a_tensor_without_data_is_a_fault_of_the_checkpoint(
    options: dict[str, bool], steps: set[int], tmp_path: Path
):
    """The answer was "nothing found", exit code 0, and no run can be resumed from it."""
    torch = pytest.importorskip("torch")
    for step, state in zip((100, 200), walk(1, "walk", 2), strict=True):
        made = {name: torch.from_numpy(value) for name, value in state.items()}
        made["lm_head.weight"] = torch.empty(4, 4, device="meta")
        made["h.0.attn.rotary_emb.inv_freq"] = torch.empty(4, device="meta")  # made again by its model
        made["extra.weight"] = torch.eye(4).to_sparse()  # only not read
        torch.save({"model": made}, tmp_path / f"step_{step}.pt")
    answer = ts.audit(tmp_path, **options)
    assert {(one.step, one.fault, one.tensor) for one in answer.faults} == {
        (step, "tensor-without-data", "lm_head.weight") for step in steps
    }
    assert not answer.ok
    assert "has no data; save it after" in answer.faults[0].message
    if not options:
        ground = ts.check(tmp_path).runs[0].judgement.grounds[0]
        assert (ground.kind, ground.level) == ("tensor-without-data", "look")


def test_the_answer_of_python_counts_what_was_checked(tmp_path: Path):
    states = dict(zip((0, 10), walk(1, "walk", 2), strict=True))
    many = len(states[0])
    first, second = repr(ts.audit(states)).splitlines()[:2]
    assert first.endswith("nothing found")
    assert second == f"checked {many} of {many} tensors, 0 skipped"


def test_a_tensor_that_the_index_lacks_is_named(tmp_path: Path):
    folder = tmp_path / "checkpoint-100"
    folder.mkdir()
    state = walk(1, "walk", 1)[0]
    save_file(state, folder / "model-00001-of-00001.safetensors")
    table = {name: "model-00001-of-00001.safetensors" for name in state if name != HEAD}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    answer = ts.audit(folder)
    assert "not in the index" in answer.coverage.skipped[HEAD]
    assert [(one.fault, one.tensor) for one in answer.faults] == [("tensor-not-in-index", HEAD)]
    assert not answer.ok
    assert f"skipped {HEAD}: it is in model-00001-of-00001.safetensors" in repr(answer)
    assert ts.check(folder).runs[0].judgement.grounds[0].kind == "tensor-not-in-index"


@pytest.mark.parametrize("by", ["values", "configuration"])
def test_a_tied_head_that_the_index_lacks_is_no_fault(tmp_path: Path, by: str):
    """Nothing is lost with it: the model takes its embedding."""
    folder = tmp_path / "checkpoint-100"
    folder.mkdir()
    state = walk(1, "walk", 1)[0]
    if by == "values":
        state[HEAD] = state[EMB].copy()
    save_file(state, folder / "model-00001-of-00001.safetensors")
    table = {name: "model-00001-of-00001.safetensors" for name in state if name != HEAD}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    tie = {"tie_word_embeddings": True} if by == "configuration" else {}
    (folder / "config.json").write_text(json.dumps(tie))
    answer = ts.audit(folder)
    assert answer.findings == ()
    assert answer.ok
    assert answer.coverage.skipped == {HEAD: f"it is not in the index, and tied to {EMB}, which is"}
    assert "fix the index" not in repr(answer)


def test_nothing_is_equal_where_nothing_could_be_read():
    states = {step: {"w": np.array(["a", "b"])} for step in (0, 10)}
    answer = ts.audit(states)
    assert answer.findings == ()
    assert "no tensor was checked" in repr(answer)


@pytest.mark.parametrize(("count", "faults"), [(2, 0), (1, 1)])
def test_tensors_that_begin_to_move_together_were_let_go(count: int, faults: int):
    """A frozen layer has no history of how far it moves; one tensor that moves alone may be a fault."""
    rng, path = np.random.default_rng(0), walk(1, "walk", 12)
    frozen = {name: path[0][name] for name in (FC1, "layers.0.attn.proj.weight")}
    path = [state | frozen for state in path]
    for name in list(frozen)[:count]:
        turned = frozen[name] + 2 * (rng.random((len(frozen[name]), 1)) < 0.3) * _noise(frozen[name])
        path[-1] = path[-1] | {name: turned.astype(np.float32)}
    found = [one for one in audit(open_series(dict(enumerate(path)))) if not one.is_remark]
    assert [one.tensor for one in found] == [FC1] * faults


def test_values_that_vanish_are_found_where_the_other_tensors_move_far():
    """Where all tensors move far along themselves, the factor of one shows nothing, and its values do."""
    start = walk(1, "walk", 1)[0]
    grown = {name: np.float32(1.6) * value for name, value in start.items()}
    grown[FC1] = np.float32(1e-20) * start[FC1]
    found = audit(open_series({0: start, 10: grown}))
    assert [(one.fault, one.tensor) for one in found if not one.is_remark] == [("near-zero-tensor", FC1)]


def test_noise_is_found_in_a_tensor_whose_rows_turned_before():
    rng, path = np.random.default_rng(0), walk(1, "walk", 10)
    for step in range(2, 9):  # a few rows turn at each step, so their share is no limit
        rows = rng.permutation(len(path[0][FC1]))[:5]
        for state in path[step:]:
            state[FC1][rows] = -state[FC1][rows]
    path[-1] = path[-1] | {FC1: _noise(path[-1][FC1]).astype(np.float32)}
    found = [one for one in audit(open_series(dict(enumerate(path)))) if not one.is_remark]
    assert [(one.fault, one.step, one.tensor) for one in found] == [("replaced-tensor", 9, FC1)]


def test_a_matrix_scaled_where_all_others_grow_is_found():
    first = walk(3, "walk", 1)[0]
    grown = {name: (1.3 * value).astype(np.float32) for name, value in first.items()}
    assert not ts.audit({0: first, 10: grown}).faults
    grown[FC1] = 100 * grown[FC1]
    for options in ({}, {"newest": True}):
        (found,) = ts.audit({0: first, 10: grown}, **options).faults
        assert (found.fault, found.tensor) == ("rescaled-tensor", FC1)


def test_tied_weights_are_no_copies_whatever_the_order_of_the_file():
    g = np.random.default_rng(0)
    table, names = g.standard_normal((32, 16)).astype(np.float32), ("wte.weight", "lm_head.weight")
    states = {}
    for step in range(6):
        table = table + 0.01 * g.standard_normal(table.shape).astype(np.float32)
        states[step] = {name: table.copy() for name in (names if step % 2 else names[::-1])}
    assert not audit(open_series(states))
