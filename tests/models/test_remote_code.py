"""A folder that brings its own code: the code is never run and nobody is asked, whatever stdin says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.patience import PATIENCE
from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.core.errors import SourceError
from toposcope.models._pretrained import TransformersModel, config_and_tokenizer

MODEL_CODE = """
from pathlib import Path
Path({canary!r}).write_text("ran")
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast
class XConfig(GPTNeoXConfig):
    model_type = "x-of-its-own"
class XModel(GPTNeoXForCausalLM):
    config_class = XConfig
class XTokenizer(PreTrainedTokenizerFast):
    pass
"""


def trap(folder: Path, canary: Path, *, what: str) -> Path:
    """Write a model whose config or tokenizer names code that leaves a file when it is imported."""
    write_causal_model(folder)
    (folder / "modeling_x.py").write_text(MODEL_CODE.format(canary=str(canary)))
    name = "config.json" if what == "model" else "tokenizer_config.json"
    settings = json.loads((folder / name).read_text())
    if what == "model":
        settings |= {"model_type": "x-of-its-own", "architectures": ["XForCausalLM"]}
        settings["auto_map"] = {
            "AutoConfig": "modeling_x.XConfig",
            "AutoModelForCausalLM": "modeling_x.XModel",
            "AutoModel": "modeling_x.XModel",
        }
    else:
        settings["tokenizer_class"] = "XTokenizer"
        settings["auto_map"] = {"AutoTokenizer": ["modeling_x.XTokenizer", "modeling_x.XTokenizer"]}
    (folder / name).write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("what", ["model", "tokenizer"])
def test_code_of_a_folder_is_refused_and_never_runs(tmp_path: Path, what: str) -> None:
    folder, canary = trap(tmp_path / "step0", tmp_path / "canary", what=what), tmp_path / "canary"
    remedy = "save it as a class of transformers" if what == "model" else "give another with `tokenizer`"
    with pytest.raises(SourceError, match=rf"step0: its {what} needs its own code .* never run: {remedy}"):
        config_and_tokenizer(folder)
    with pytest.raises(SourceError, match="never run"):
        TransformersModel(folder)
    assert not canary.exists()


def test_another_tokenizer_is_the_remedy(tmp_path: Path) -> None:
    folder = trap(tmp_path / "step0", tmp_path / "canary", what="tokenizer")
    write_causal_model(tmp_path / "plain")
    model = TransformersModel(folder, tokenizer=tmp_path / "plain")
    assert model.encode(TEXTS[:1], 4) == TransformersModel(tmp_path / "plain").encode(TEXTS[:1], 4)
    assert not (tmp_path / "canary").exists()


def test_a_class_of_the_library_needs_no_code_of_the_folder(tmp_path: Path) -> None:
    folder, canary = tmp_path / "step0", tmp_path / "canary"
    write_causal_model(folder)
    (folder / "modeling_x.py").write_text(MODEL_CODE.format(canary=str(canary)))
    settings = json.loads((folder / "config.json").read_text())
    settings["auto_map"] = {"AutoModelForCausalLM": "modeling_x.XModel"}
    (folder / "config.json").write_text(json.dumps(settings))
    assert TransformersModel(folder).n_layers == 3
    assert not canary.exists()


@pytest.mark.slow
def test_the_command_asks_nothing_and_ends_with_one_line(tmp_path: Path) -> None:
    folder = trap(tmp_path / "series" / "step0", tmp_path / "canary", what="model")
    shutil.copytree(folder, tmp_path / "series" / "step1")
    assert "never run: save it as a class of transformers" in refusal(tmp_path)


@pytest.mark.parametrize("alone", [True, False])
def test_a_tokenizer_given_alone_is_refused_and_never_runs(tmp_path: Path, alone: bool) -> None:
    write_causal_model(tmp_path / "plain")
    folder = trap(tmp_path / "given", tmp_path / "canary", what="tokenizer")
    if alone:  # a folder of nothing but the tokenizer
        for path in [*folder.glob("config.json"), *folder.glob("*.safetensors")]:
            path.unlink()
    with pytest.raises(SourceError, match=r"given: its tokenizer needs its own code .* never run"):
        TransformersModel(tmp_path / "plain", tokenizer=folder)
    assert not (tmp_path / "canary").exists()


@pytest.mark.slow
def test_the_command_refuses_a_tokenizer_with_code_and_asks_nothing(tmp_path: Path) -> None:
    write_causal_model(tmp_path / "series" / "step0")
    folder = trap(tmp_path / "given", tmp_path / "canary", what="tokenizer")
    assert "its tokenizer needs its own code" in refusal(tmp_path, "--tokenizer", str(folder))


def refusal(place: Path, *more: str) -> str:
    """Return the last line of `embeddings` on a folder's series: refused, nothing asked or written."""
    texts = place / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    call = [
        sys.executable, "-c", "from toposcope.cli.main import main; main()", "embeddings",
        str(place / "series"), "--texts", str(texts), "--min-chars", "1", "--limit", "5", *more, "--out",
        str(place / "store"),
    ]  # fmt: skip
    ended = subprocess.run(
        call, input="y\ny\ny\n", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert "[y/N]" not in ended.stdout + ended.stderr
    assert not (place / "canary").exists()
    assert not (place / "store").exists()
    return ended.stderr.strip().splitlines()[-1]
