"""A part that is missing, or that was not written into the store, is named by every command that reads it."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.store import Store


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two stores of two runs each, with losses."""
    place = tmp_path_factory.mktemp("measured")
    for group in ("a", "b"):
        for seed in (1, 2):
            run = place / group / f"seed{seed}"
            run.mkdir(parents=True)
            random = np.random.default_rng(seed)
            state = {f"layers.{i}.mlp.fc1.weight": random.normal(size=(16, 8)) for i in range(2)}
            for step in range(0, 130, 10):
                state = {
                    name: value + 0.02 * random.normal(size=value.shape) for name, value in state.items()
                }
                weights = {name: value.astype("f4") for name, value in state.items()}
                save_file(weights, run / f"step_{step}.safetensors")
            rows = [f"{step},{3 - step / 100 + 0.01 * random.normal()}" for step in range(0, 121, 2)]
            (run / "log.csv").write_text("step,loss\n" + "\n".join(rows))
        code(["weights", str(place / group), "--out", str(place / f"store-{group}"), "--features", "updates"])
    return place


def code(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def gone(store, other):
    next((store / "features").glob("*.parquet")).unlink()


def copied(store, other):
    part = next((store / "features").glob("seed1.*.parquet"))
    shutil.copyfile(part, part.with_name(part.name.replace("seed1", "seed9")))


def copied_losses(store, other):
    shutil.copyfile(store / "metrics" / "seed1.parquet", store / "metrics" / "seed9.parquet")


def of_another_store(store, other):
    part = next((other / "features").glob("seed1.*.parquet"))
    shutil.copyfile(part, store / "features" / part.name.replace(".pack.", "0.pack."))


def badly_named(store, other):
    part = next((store / "features").glob("*.parquet"))
    shutil.copyfile(part, part.with_name("seed9.abcd.updates.ffff.parquet"))


def without_ledger(store, other):
    shutil.rmtree(store / ".ledger")


def garbled_ledger(store, other):
    with next((store / ".ledger" / "features").iterdir()).open("ab") as file:
        file.write(b"x" * 1000 + b'\n{"name": "../../etc/passwd", "footer": 1}\n')


def swapped(store, other):
    one, two = sorted((store / "features").glob("*.parquet"))[:2]
    other_way = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(other_way)


def test_parts_that_changed_places_are_named_by_commands_that_do_not_read_them(measured, tmp_path, capsys):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    swapped(store, None)
    for words in (["check", str(store)], ["compare", str(store), str(measured / "store-b")]):
        assert code(words) in (1, 2)
        said = " ".join("".join(capsys.readouterr()).split())
        assert "is not what was written into this store" in said or "truncated or damaged" in said, said


FAULTS = (gone, copied, copied_losses, of_another_store, badly_named, without_ledger, garbled_ledger)
COMMANDS = {
    "export": ["export", "STORE", "--out", "OUT"],
    "merge": ["merge", "STORE", "OTHER", "--out", "OUT"],
    "forecast": ["forecast", "STORE", "--horizon", "200"],
    "compare": ["compare", "STORE", "OTHER"],
    "check": ["check", "STORE"],
    "analyze": ["analyze", "STORE"],
    "report": ["report", "STORE", "--out", "OUT"],
    "weights": ["weights", "SERIES", "--out", "STORE", "--features", "updates"],
    "watch": ["watch", "SERIES", "--out", "STORE", "--features", "updates", "--once", "--rest", "0"],
    "watch of a store": ["watch", "STORE", "--once"],
}
CASES = [
    pytest.param(fault, command, marks=[pytest.mark.slow] * (command in ("analyze", "report", "compare")))
    for fault in FAULTS
    for command in COMMANDS
    if (fault, command) != (gone, "weights")  # which measures again what is gone
]


@pytest.mark.parametrize(("fault", "command"), CASES)
def test_a_faulty_part_is_named_with_exit_code_1(measured, tmp_path, fault, command, capsys):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    fault(store, measured / "store-b")
    places = {"STORE": str(store), "OTHER": str(measured / "store-b"), "OUT": str(tmp_path / "out")}
    places["SERIES"] = str(measured / "a")
    ended = code([places.get(word, word) for word in COMMANDS[command]])
    said = capsys.readouterr()
    told = said.out + said.err
    assert ended in ((1, 2) if fault is badly_named else (1,)), told
    assert "Traceback" not in told
    wanted = {
        gone: "was written and is gone", badly_named: "by its name", without_ledger: ".ledger is gone",
        garbled_ledger: ".ledger/features has 2 lines that cannot be read",
    }  # fmt: skip
    if command in ("weights", "watch") and fault is without_ledger:  # a new one begins, without the old parts
        wanted = {}
    assert wanted.get(fault, "was not written into this store") in " ".join(told.split()), told


def test_a_command_that_ends_early_names_them_too(measured, tmp_path, capsys):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    gone(store, None)
    assert code(["analyze", str(store), "--columns", "nosuch"]) == 2
    said = capsys.readouterr().err
    assert "nosuch" in said
    assert "was written and is gone" in said


@pytest.mark.parametrize("command", ["export", "check", "forecast"])
def test_the_json_answer_lists_them(measured, tmp_path, command, capsys):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    gone(store, None)
    words = [
        {"STORE": str(store), "OUT": str(tmp_path / "out")}.get(word, word) for word in COMMANDS[command]
    ]
    assert code([*words, "--json"]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["part_faults"]
    assert "was written and is gone" in fault


def test_a_whole_store_has_no_such_fault(measured, tmp_path, capsys):
    assert code(["export", str(measured / "store-a"), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert "part_faults" not in json.loads(capsys.readouterr().out)


def test_what_is_gone_is_measured_again(measured, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    gone(store, None)
    assert code(["weights", str(measured / "a"), "--out", str(store), "--features", "updates"]) == 0
    assert Store.open(store).part_faults() == ()


def test_a_foreign_part_is_not_joined_with_the_parts_of_a_store(measured, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(measured / "store-a", store)
    of_another_store(store, measured / "store-b")
    before = Store.open(store).part_faults()
    opened = Store.open(store)
    opened.compact()
    assert Store.open(store).part_faults() == before != ()
