"""The corpus of installed packages, and the subwords of bytes that its recipe uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders

from toposcope.core.errors import InputError
from toposcope.recipes import load_training_recipe
from toposcope.training import corpus as corpora
from toposcope.training._installed import END, installed_text
from toposcope.training.corpus import Corpus, load_corpus
from toposcope.training.tokens import tokenize


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for number in range(60):
        text = f"# module {number}\n" + f"value_{number} = {number}  # of module {number}\n" * 20
        (tmp_path / f"module_{number}.py").write_text(text)
        (tmp_path / f"copy_{number}.py").write_text(text)
    return tmp_path


def test_each_content_is_there_once_on_one_side(packages):
    parts = installed_text(0.3, roots=[packages])
    modules = [[line for line in part.splitlines() if line.startswith("# module")] for part in parts]
    assert sorted(modules[0] + modules[1]) == sorted(f"# module {number}" for number in range(60))
    assert 5 < len(modules[1]) < 40


def test_the_same_files_in_another_place_give_the_same_text(packages, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for path in packages.glob("module_*.py"):
        (other / path.name).write_bytes(path.read_bytes())
        (other / path.name.replace("module", "copy")).write_bytes(path.read_bytes())
    assert installed_text(0.3, roots=[packages]) == installed_text(0.3, roots=[other])


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe" * 500, b"a" * 5000, b"x = 1\0\n" * 100, b"short\n"],
    ids=["bytes", "line", "nul", "short"],
)
def test_what_is_no_text_is_left_out(packages, content):
    before = installed_text(0.3, roots=[packages])
    (packages / "odd.py").write_bytes(content)
    assert installed_text(0.3, roots=[packages]) == before


def test_reading_ends_at_the_largest_size(packages):
    train, _ = installed_text(0.3, roots=[packages], largest=3000)
    assert 3000 < len(train) < 3000 + 2000
    assert END in train


def test_a_python_without_files_is_refused(monkeypatch):
    monkeypatch.setattr(corpora, "installed_text", lambda fraction: ("", ""))
    with pytest.raises(InputError, match="too few files of installed packages"):
        load_corpus("installed")


def test_bytes_lose_nothing_and_join_runs_of_spaces():
    text = "def f(x):\n        return x  # \u2013 \U0001f600\n" * 40
    recipe = load_training_recipe("scale", {"vocabulary": 300, "context": 8})
    data = tokenize(Corpus("text", text, text), recipe)
    learnt = Tokenizer.from_str(data.tokenizer)
    learnt.decoder = decoders.ByteLevel()
    assert learnt.decode(data.train.tolist()) == text
    assert data.train.max() < 300
    assert len(data.train) < len(text) / 2
    again = tokenize(Corpus("text", text, text), recipe, tokenizer=data.tokenizer)
    assert (again.train == data.train).all()
