"""`toposcope embeddings` as a user types it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil

import numpy as np
import pytest

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.cli.main import main
from toposcope.core.errors import InputError
from toposcope.store import Store
from toposcope.subjects.representations.tables.sensitivity import measured_sensitivity


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    for seed, step in enumerate((0, 4)):
        write_causal_model(folder / "neox" / f"step{step}", seed)
    (folder / "texts.txt").write_text("\n".join(f"{text} {i}" for i in range(3) for text in TEXTS))
    return folder


def _run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["embeddings", *map(str, arguments)])
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


@pytest.mark.slow
def test_a_series_is_measured_and_found_again(inputs, tmp_path, capsys):
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 20, "--min-chars", 5,
        "--layers", "all", "--components", 4, "--out", tmp_path / "store", "--save-states", tmp_path / "kept",
        "--json",
    )  # fmt: skip
    code, out, _ = _run(capsys, *call)
    assert code == 0
    assert json.loads(out)["measured"] == 2
    assert (tmp_path / "kept" / "neox" / "step_000004.safetensors").is_file()
    code, out, _ = _run(capsys, *call)
    assert (json.loads(out)["measured"], json.loads(out)["present"]) == (0, 2)


def test_kept_states_read_back(inputs, tmp_path, capsys):
    from toposcope.core.errors import SourceError
    from toposcope.core.types import Checkpoint
    from toposcope.subjects.representations.saved_states import read_states, states_path

    _run(
        capsys, inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 10, "--min-chars", 5,
        "--out", tmp_path / "store", "--save-states", tmp_path,
    )  # fmt: skip
    at = Checkpoint("neox", 4)
    assert {layer: values.shape for layer, values in read_states(tmp_path, at).items()} == {3: (10, 32)}
    states_path(tmp_path, at).write_bytes(b"broken")
    with pytest.raises(SourceError, match="is damaged"):
        read_states(tmp_path, at)
    with pytest.raises(SourceError, match="does not exist"):
        read_states(tmp_path, Checkpoint("neox", 5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--texts", "nowhere.txt"], "nowhere.txt"),
        (["--texts", "TEXTS", "--limit", "9999"], "9999 are needed"),
        (["--texts", "TEXTS", "--preset", "bogus"], "--preset 'bogus': unknown; use one of"),
        (["--texts", "TEXTS", "--maxdim", "7"], "--maxdim 7: it must be 0, 1 or 2"),
        (["--texts", "TEXTS", "--limit", "0"], "Invalid value for '--limit'"),
        (["--texts", "TEXTS", "--min-chars", "-1"], "Invalid value for '--min-chars'"),
        (
            ["--texts", "TEXTS", "--limit", "9", "--layers", "0,abc"],
            "--layers '0,abc': not a choice of layers; give last, all",
        ),
        (["--texts", "TEXTS", "--limit", "9", "--layers", "99"], "hidden states are numbered 0 to 3"),
        (["--texts", "TEXTS", "--limit", "9", "--device", "tpu"], "--device 'tpu': unknown device"),
        (["--texts", "EMPTY"], "is empty; give a file with a text on each line"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(inputs, tmp_path, capsys, arguments, message):
    (tmp_path / "empty.txt").touch()
    files = {"TEXTS": str(inputs / "texts.txt"), "EMPTY": str(tmp_path / "empty.txt")}
    arguments = [files.get(word, word) for word in arguments]
    code, _, err = _run(capsys, inputs / "neox", "--out", tmp_path / "store", "--min-chars", 5, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "store").exists()


def test_a_graphics_card_that_is_not_there_is_refused(inputs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    call = (inputs / "neox", "--texts", inputs / "texts.txt", "--out", tmp_path / "store", "--device", "cuda")
    code, _, err = _run(capsys, *call)
    assert (code, err.count("\n")) == (2, 1)
    assert "--device 'cuda': not available on this machine; use --device cpu" in err
    assert not (tmp_path / "store").exists()


def test_models_that_cannot_be_read_are_one_line_and_no_store(inputs, tmp_path, capsys):
    shutil.copytree(inputs / "neox", tmp_path / "neox")
    for path in tmp_path.glob("neox/step*/tokenizer*"):
        path.unlink()
    shutil.copy(inputs / "neox" / "step0" / "model.safetensors", tmp_path / "lone.safetensors")
    for series, message in (("neox", "has no tokenizer: give one with --tokenizer"),
                            ("lone.safetensors", "contains weights but no model")):  # fmt: skip
        code, _, err = _run(
            capsys, tmp_path / series, "--texts", inputs / "texts.txt", "--limit", 9, "--min-chars", 5,
            "--out", tmp_path / "store",
        )  # fmt: skip
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
        assert not (tmp_path / "store").exists()


def test_checkpoints_that_open_are_measured_though_the_first_does_not(inputs, tmp_path, capsys):
    shutil.copytree(inputs / "neox", tmp_path / "neox")
    write_causal_model(tmp_path / "neox" / "step8", 2)
    for path in tmp_path.glob("neox/step0/tokenizer*"):
        path.unlink()
    code, out, _ = _run(
        capsys, tmp_path / "neox", "--texts", inputs / "texts.txt", "--limit", 9, "--min-chars", 5,
        "--out", tmp_path / "store", "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert (code, found["measured"], [one["step"] for one in found["failed"]]) == (1, 2, [0])
    moved = Store.open(tmp_path / "store").features(feature="wasserstein1_h1").set_index("step")
    assert moved.status.to_dict() == {4: "degenerate", 8: "ok"}
    assert moved.note[4] == "previous checkpoint 0 could not be read"
    shutil.rmtree(tmp_path / "neox" / "step0")
    shutil.copytree(inputs / "neox" / "step0", tmp_path / "neox" / "step0")
    code, out, _ = _run(
        capsys, tmp_path / "neox", "--texts", inputs / "texts.txt", "--limit", 9, "--min-chars", 5,
        "--out", tmp_path / "store", "--json",
    )  # fmt: skip
    assert (code, json.loads(out)["measured"]) == (0, 2)
    table = Store.open(tmp_path / "store").features()
    moved = table[table.feature.str.contains("wasserstein|bottleneck")]
    assert set(moved.status) == {"ok"}
    assert not table.duplicated(["step", "name", "layer", "draw", "filtration", "feature"]).any()


def test_a_sweep_that_fails_for_one_cause_is_one_error_and_leaves_no_store(
    inputs, tmp_path, capsys, monkeypatch
):
    def refuse(*_, **__):
        raise InputError("the texts cannot be read")

    monkeypatch.setattr("toposcope.subjects.representations.source.read", refuse)
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 9, "--min-chars", 5,
        "--out", tmp_path / "store",
    )  # fmt: skip
    code, _, err = _run(capsys, *call)
    assert code == 2
    line = err.splitlines()[-1]
    assert line.startswith("toposcope: error: nothing could be measured: run neox step 0 (and 1 more): ")
    assert "the texts cannot be read" in line
    assert not (tmp_path / "store").exists()


def test_a_store_of_weights_says_what_it_holds(inputs, tmp_path, capsys):
    Store.create(tmp_path / "store", recipe={"preset": "default", "points": 200})
    call = (inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 9, "--min-chars", 5)
    code, _, err = _run(capsys, *call, "--out", tmp_path / "store")
    assert code == 2
    assert "holds weights, not representations: choose another folder" in err


def test_a_store_of_other_texts_is_refused(inputs, tmp_path, capsys):
    call = (inputs / "neox", "--texts", inputs / "texts.txt", "--min-chars", 5, "--out", tmp_path / "store")
    assert _run(capsys, *call, "--limit", 10)[0] == 0
    code, _, err = _run(capsys, *call, "--limit", 12)
    assert code == 2
    assert "was measured with other settings (texts" in err


def _kept(inputs, tmp_path, capsys, *more):
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 12, "--min-chars", 5, "--layers", "all",
        "--components", 4, "--nulls", 2, "--save-states", tmp_path / "kept", *more, "--json",
    )  # fmt: skip
    return _run(capsys, *call)


def _rows(store):
    from toposcope.store import Store

    keys = ["run", "step", "name", "layer", "feature", "draw"]
    rows = Store.open(store).features()
    return rows[rows.probe == "representations"].sort_values(keys, ignore_index=True)[[*keys, "value"]]


def test_kept_states_give_the_same_rows_without_a_model(inputs, tmp_path, capsys):
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "one")
    code, out, _ = _run(
        capsys, "--from-states", tmp_path / "kept", "--layers", "all", "--components", 4, "--nulls", 2,
        "--out", tmp_path / "two", "--json",
    )  # fmt: skip
    assert (code, json.loads(out)["measured"]) == (0, 2)
    one, two = _rows(tmp_path / "one"), _rows(tmp_path / "two")
    assert len(one) == len(two) > 100
    assert one.drop(columns="value").equals(two.drop(columns="value"))
    np.testing.assert_allclose(one.value, two.value, rtol=1e-12)


def test_a_new_feature_needs_no_second_pass(inputs, tmp_path, capsys, monkeypatch):
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "one")

    def refuse(*_):
        raise AssertionError("the model was opened again")

    monkeypatch.setattr("toposcope.models.loading.ModelLoader.open", refuse)
    code, out, _ = _kept(inputs, tmp_path, capsys, "--out", tmp_path / "two", "--maxdim", 2)
    assert (code, json.loads(out)["measured"]) == (0, 2)
    assert "h2_total" in set(_rows(tmp_path / "two").feature)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--length", 9), "length 128 there, 9 here"),
        (("--pooling", "last"), "pooling 'mean' there, 'last' here"),
        (("--layers", "last"), "layers 'all' there, 'last' here"),
        (("--limit", 11), "other texts"),
    ],
)
def test_states_read_otherwise_are_refused(inputs, tmp_path, capsys, change, message):
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "one")
    files = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.safetensors")}
    code, _, err = _kept(inputs, tmp_path, capsys, "--out", tmp_path / "two", *change)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert "choose another folder for --save-states" in err
    assert files == {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.safetensors")}
    assert not (tmp_path / "two").exists()


def test_the_sensitivity_of_every_feature_is_said(inputs, tmp_path, capsys):
    code, out, _ = _kept(
        inputs, tmp_path, capsys, "--out", tmp_path / "one", "--sensitivity", "--sensitivity-texts", "12,20"
    )
    assert code == 0
    table = {row["feature"]: row for row in json.loads(out)["sensitivity"]}
    assert table["h1_total"]["settings"] == 8
    assert table["h1_total"]["draws"] == 5
    assert table["rankme_eigenvalues"]["settings"] == 2
    assert table["h0_count"]["status"] == "degenerate"
    assert np.isfinite(table["h0_total"]["components_spread"])
    from toposcope.store import Store

    rows = Store.open(tmp_path / "one").features(probe="sensitivity")
    assert set(rows.name) == {"texts12", "texts20"} | {
        f"{c}/texts{n}" for c in ("pca25", "pca50", "pca100", "none") for n in (12, 20)
    }
    assert set(rows[rows.name == "none/texts20"].draw.isna()) == {True}
    # the study's own cloud is that of the first texts alone
    alone = tmp_path / "alone"
    _run(
        capsys, inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 12, "--min-chars", 5, "--layers",
        "all", "--components", 4, "--nulls", 2, "--out", alone,
    )  # fmt: skip
    one, two = _rows(tmp_path / "one"), _rows(alone)
    known = one.feature.str.startswith("h0_total") & (one.name == "hidden")
    np.testing.assert_allclose(one[known].value, two[known.to_numpy()].value, rtol=1e-4)


def test_the_table_is_readable_without_json(inputs, tmp_path, capsys):
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 12, "--min-chars", 5, "--nulls", 0,
        "--sensitivity", "--sensitivity-texts", "12,20", "--out", tmp_path / "store",
    )  # fmt: skip
    code, out, _ = _run(capsys, *call)
    assert code == 0
    assert "How far the findings depend on the settings" in out
    changed, judged = map(int, re.search(r"changes (\d+) of (\d+) \w+", out).groups())
    table = measured_sensitivity(Store.open(tmp_path / "store").features())
    ok = table[table["status"] == "ok"]
    assert (changed, judged) == (int((ok["settings_spread"] > 1).sum()), len(ok))


def test_settings_are_not_compared_with_training_at_one_checkpoint(inputs, tmp_path, capsys):
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 12, "--min-chars", 5, "--nulls", 0,
        "--sensitivity", "--sensitivity-texts", "12,20", "--steps", "last", "--out", tmp_path / "store",
    )  # fmt: skip
    code, out, _ = _run(capsys, *call)
    assert code == 0
    assert "The settings cannot be compared with training" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--texts", "x"), "--texts 'x': saved states do not use it: they open no model; leave it out"),
        (("--length", 9), "--length 9: saved states do not use it: they open no model; leave it out"),
        (("--min-chars", 9), "--min-chars 9: saved states do not use it: they open no model; leave it out"),
        (("--steps", "last"), "--steps 'last': saved states do not use it: they open no model; leave it out"),
        (("--save-states", "s"), "--save-states 's': saved states do not use it: they open no model"),
        (("--attention",), "saved states contain no attention"),
        (("--layers", "9"), "numbered 0 to 3"),
        (("--limit", 99), "limit 99: "),
        (("--sensitivity", "--sensitivity-texts", "5,99"), "texts 99: only 12"),
        (("--sensitivity", "--sensitivity-texts", "a"), "give numbers separated by commas"),
    ],
)
def test_what_kept_states_cannot_give_is_said(inputs, tmp_path, capsys, more, message):
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "one")
    _, out, err = _run(capsys, "--from-states", tmp_path / "kept", "--out", tmp_path / "two", *more)
    assert message in " ".join((out + err).split())


def test_kept_folders_are_checked(inputs, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    _, _, err = _run(capsys, "--from-states", tmp_path / "empty", "--out", tmp_path / "store")
    assert "contains no saved states" in err
    _, _, err = _run(capsys, "--out", tmp_path / "store")
    assert "needs SERIES and --texts, or --from-states" in err
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "one")
    other = tmp_path / "other"
    _kept(inputs, tmp_path, capsys, "--out", tmp_path / "two", "--length", 9, "--save-states", other)
    name = "neox/step_000000.safetensors"
    shutil.copy(other / name, tmp_path / "kept" / name)
    _, _, err = _run(capsys, "--from-states", tmp_path / "kept", "--out", tmp_path / "three")
    assert "was read from other texts or with other settings" in err


def test_an_unknown_probe_is_refused(tmp_path, capsys):
    code, _, err = _run(
        capsys, "series", "--texts", "texts.txt", "--features", "holes", "--out", tmp_path / "store"
    )
    assert code == 2
    assert "--features 'holes': no such probe; use representations, sensitivity, or MODULE:CLASS" in err
    assert not (tmp_path / "store").exists()


def test_without_pytorch_it_is_one_line_before_anything_is_read(monkeypatch, tmp_path, capsys):
    """So for the loss surface, too: the line has the command that adds it here."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else found(name)
    )
    for command in (["embeddings", "--texts", tmp_path / "t"], ["landscape"]):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in (*command, tmp_path / "nothing", "--out", tmp_path / "s")])
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert re.fullmatch(
            r"toposcope: error: torch is not installed; install it with: .*pip install .*\[train\]'( -c .*)?",
            line,
        )
        assert not (tmp_path / "s").exists()
