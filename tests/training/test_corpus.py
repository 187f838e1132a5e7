from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.recipes import load_training_recipe
from toposcope.training.corpus import Corpus, load_corpus
from toposcope.training.tokens import batch, characters, heldout_batches, tokenize


def test_the_default_corpus_is_real_english_in_two_parts() -> None:
    corpus = load_corpus("python-docs", heldout_fraction=0.25)
    whole = corpus.train + corpus.heldout
    assert len(whole) > 300_000
    assert "The Python" in whole
    assert len(corpus.heldout) == round(len(whole) * 0.25)
    assert load_corpus("python-docs").sha256 == load_corpus("python-docs").sha256 != corpus.sha256


def test_a_file_and_a_folder_are_split_at_the_tail(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("B" * 10)
    (tmp_path / "a.txt").write_text("A" * 8)
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    corpus = load_corpus(str(tmp_path), heldout_fraction=0.25)
    assert corpus.train == "A" * 8 + "\n\n" + "B" * 5
    assert corpus.heldout == "B" * 5
    assert load_corpus(str(tmp_path / "a.txt"), heldout_fraction=0.25).heldout == "AA"


def test_wikitext_files_bring_their_own_split(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"wiki.{part}.tokens").write_text(part)
    corpus = load_corpus(str(tmp_path))
    assert (corpus.train, corpus.heldout) == ("train", "valid")


def test_wikitext2_as_the_paper_counts_it(shared_data: Path) -> None:
    corpus = load_corpus(str(shared_data / "wikitext2"))
    assert len(corpus.train) == 10_780_437


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: str(folder / "absent"),
            "neither python-docs, installed, wikitext2, nor an existing file or folder",
        ),
        (lambda folder: str(folder), "contains no .txt, .tokens, .md file"),
        (lambda folder: _write(folder / "x.txt", b"\xff\xff"), "is not UTF-8 text"),
        (lambda folder: _write(folder / "x.txt", b""), "too few for a training part and a held-out part"),
    ],
)
def test_a_corpus_that_is_none_is_refused(make, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load_corpus(make(tmp_path))


def _write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_offline_the_hub_corpus_names_the_file_route(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "hf_hub_download", unreachable)
    with pytest.raises(InputError, match=r"could not be fetched .*ConnectionError.*`corpus` PATH"):
        load_corpus("wikitext2")


def test_the_hub_corpus_reads_train_and_validation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    import pyarrow as pa
    import pyarrow.parquet as pq

    asked = []

    def download(repository: str, file: str, *, repo_type: str, revision: str) -> str:
        asked.append((repository, file, repo_type, revision))
        path = tmp_path / "part.parquet"
        pq.write_table(pa.table({"text": ["", f" = {file.split('/')[1]} = \n"]}), path)
        return str(path)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    corpus = load_corpus("wikitext2@abc")
    assert (corpus.train, corpus.heldout) == (" = train = \n", " = validation = \n")
    assert {revision for *_, revision in asked} == {"abc"}


def test_characters_fold_what_is_not_ascii() -> None:
    assert characters("a–\U0001f600", 128).tolist() == [97, 0x2013 % 128, 0x1F600 % 128]


def test_batches_depend_on_seed_and_step_alone() -> None:
    tokens = np.arange(1000)
    first = batch(tokens, seed=1, step=3, size=5, context=8)
    assert first.shape == (5, 9)
    assert (np.diff(first, axis=1) == 1).all()
    np.testing.assert_array_equal(first, batch(tokens, seed=1, step=3, size=5, context=8))
    assert not np.array_equal(first, batch(tokens, seed=1, step=4, size=5, context=8))
    assert not np.array_equal(first, batch(tokens, seed=2, step=3, size=5, context=8))


def test_every_window_can_be_drawn_and_none_beyond() -> None:
    tokens = np.arange(12)
    starts = {
        int(batch(tokens, seed=0, step=s, size=4, context=8)[i, 0]) for s in range(20) for i in range(4)
    }
    assert starts == {0, 1, 2, 3}


def test_heldout_windows_cover_the_part_from_end_to_end() -> None:
    windows = heldout_batches(np.arange(100), count=2, size=3, context=9)
    assert windows.shape == (2, 3, 10)
    assert windows.min() == 0
    assert windows.max() == 99


def test_subwords_are_learnt_once_and_used_again() -> None:
    recipe = load_training_recipe("seed001", {"vocabulary": 64, "context": 8})
    corpus = Corpus(
        "x", "the cat sat on the mat and the rat ate the hat. " * 50, "the bat sat on the cat. " * 20
    )
    data = tokenize(corpus, recipe)
    again = tokenize(corpus, recipe, tokenizer=data.tokenizer)
    np.testing.assert_array_equal(data.train, again.train)
    assert data.train.max() < 64
    assert len(data.train) < len(corpus.train)


def test_a_corpus_shorter_than_a_context_is_refused() -> None:
    recipe = load_training_recipe("seed004")
    with pytest.raises(InputError, match=r"its held-out part has 20 tokens, but more than 128"):
        tokenize(Corpus("x", "a" * 200, "b" * 20), recipe)
