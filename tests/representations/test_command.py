"""`toposcope embeddings` as a user types it."""

from __future__ import annotations

import json

import pytest

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.cli.main import main


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


def test_a_series_is_measured_and_found_again(inputs, tmp_path, capsys):
    call = (
        inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 20, "--min-chars", 5,
        "--layers", "all", "--pca", 4, "--out", tmp_path / "store", "--keep", tmp_path / "kept", "--json",
    )  # fmt: skip
    code, out, _ = _run(capsys, *call)
    assert code == 0
    assert json.loads(out)["measured"] == 2
    assert (tmp_path / "kept" / "neox" / "step_000004.safetensors").is_file()
    code, out, _ = _run(capsys, *call)
    assert (json.loads(out)["measured"], json.loads(out)["present"]) == (0, 2)


def test_kept_states_read_back(inputs, tmp_path, capsys):
    from toposcope.errors import SourceError
    from toposcope.probes.representations.kept import read_states, states_path
    from toposcope.types import Checkpoint

    _run(
        capsys, inputs / "neox", "--texts", inputs / "texts.txt", "--limit", 10, "--min-chars", 5,
        "--out", tmp_path / "store", "--keep", tmp_path,
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
        (["--texts", "TEXTS", "--limit", "9999"], "9999 were asked for"),
        (["--texts", "TEXTS", "--preset", "bogus"], "preset is 'bogus'"),
        (["--texts", "TEXTS", "--maxdim", "7"], "maxdim is 7"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(inputs, tmp_path, capsys, arguments, message):
    arguments = [str(inputs / "texts.txt") if word == "TEXTS" else word for word in arguments]
    code, _, err = _run(capsys, inputs / "neox", "--out", tmp_path / "store", "--min-chars", 5, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "store").exists()


def test_a_store_of_other_texts_is_refused(inputs, tmp_path, capsys):
    call = (inputs / "neox", "--texts", inputs / "texts.txt", "--min-chars", 5, "--out", tmp_path / "store")
    assert _run(capsys, *call, "--limit", 10)[0] == 0
    code, _, err = _run(capsys, *call, "--limit", 12)
    assert code == 2
    assert "recipe" in err
