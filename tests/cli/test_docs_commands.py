"""Commands of the docs on small data: sweeps as far as their plan, watches for one look."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.test_recommended import ROOT, printed
from toposcope.cli.main import main

SWEEPS = ("weights", "embeddings", "landscape")
ELSEWHERE = {"seed_runs", "--from-states", "MINILM", "WIKITEXT2", "STATES", "SERIES…"}
"""What this test has no small stand-in for: other files, an encoder, a corpus, kept states."""


def lines(page: str, *names: str) -> list[str]:
    """Return the commands of a page that have one of these names and a stand-in for all that they read."""
    found = printed((ROOT / "docs" / page).read_text())
    split = {line: shlex.split(line, comments=True) for line in found}
    return [line for line, words in split.items() if words[1] in names and not ELSEWHERE & set(words)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run as SERIES and as runs/, and a FILE of texts."""
    folder = tmp_path_factory.mktemp("docs")
    few = ("steps=4", "checkpoint_every=2", "warmup_steps=1", "heldout_batches=1", "batch_size=2")
    corpus = folder / "FILE"
    corpus.write_text(
        "\n".join(f"{n} persistence of a diagram is its death minus its birth " * 4 for n in range(300))
    )
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "train", "--models", "tiny-3k", "--corpus", str(corpus), "--jobs", "1",
                "--out", str(folder / "SERIES"), *(word for one in few for word in ("--set", one)),
            ]
        )  # fmt: skip
    assert ended.value.code == 0
    (folder / "runs").symlink_to(folder / "SERIES")
    (folder / "log.jsonl").write_text('{"step": 0, "val": 3.0}\n{"step": 2, "val": 2.0}\n')
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for page in ("landscape.md", "representations.md") for line in lines(page, *SWEEPS)]
)
def test_a_sweep_of_the_docs_can_be_planned(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(line, comments=True)[1:], "--plan"])
    assert ended.value.code == 0, capsys.readouterr().err
    assert not (place / "STORE").exists()


@pytest.mark.slow
@pytest.mark.parametrize("line", [one for one in lines("watch.md", "watch") if "DIR" not in one])
def test_a_watch_of_the_docs_looks(
    line: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(place)
    words = shlex.split(line, comments=True)[1:]
    if "--port" in words or "--sink" in words:
        pytest.skip("serves until it is ended, or needs a tracker")
    once = [] if "--once" in words else ["--once"]
    with pytest.raises(SystemExit) as ended:
        main([*words, *once, "--rest", "0", "--out", str(tmp_path / "store")])
    assert ended.value.code in (0, 1), capsys.readouterr().err
    assert not capsys.readouterr().err
