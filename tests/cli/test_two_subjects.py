"""A store of two subjects has one answer: what holds for both is said once, the rest under headings."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from toposcope.cli.main import toposcope

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure a run whose checkpoints hold weights and an optimiser's moments."""
    folder = tmp_path_factory.mktemp("two")
    run = folder / "run"
    run.mkdir()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = ["step,loss"]
    for step in range(1, 16):
        optimizer.zero_grad()
        loss = (model(torch.ones(4, 8)) - 1.0).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(f"{step},{loss.item()}")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}
        torch.save(state, run / f"step_{step}.pt")
    (run / "train.csv").write_text("\n".join(losses))
    _printed("weights", str(run), "--out", str(folder / "store"), "--yes")
    return folder / "store"


def _printed(*words: str) -> str:
    result = CliRunner().invoke(toposcope, list(words), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.stdout


@pytest.mark.slow
def test_analyze_and_report_say_once_what_holds_for_both(store: Path) -> None:
    page = store.with_name("page")
    analyzed, reported = _printed("analyze", str(store)), _printed("report", str(store), "--out", str(page))
    for text in (analyzed, reported):
        lines = text.splitlines()
        assert [line for line in lines[:14] if line in ("Weights", "Optimiser")] == ["Weights", "Optimiser"]
        for name in ("measurements", "training", "odd runs"):
            assert sum(line[4:].startswith(name) for line in lines) == 1
        for heading, about in (("Weights", "topology"), ("Optimiser", "size")):
            assert lines[lines.index(heading) + 1][4:].startswith(about)
        assert text.count("Next: ") == 1
        assert text.count(lines[0]) == 1
    twin = (page / "report.md").read_text(encoding="utf-8")
    first = twin[: twin.index("## Weights: answers")]
    assert first.count("| measurements |") == first.count("Next: ") == 1
    assert first.count("| topology |") == first.count("| size |") == 1


@pytest.mark.slow
def test_the_tables_of_both_stand_under_their_headings(store: Path) -> None:
    text = _printed("analyze", str(store))
    assert text.count("\nWeights\n") == text.count("\nOptimiser\n") == 2
    assert text.count("Changed: ") == 2
