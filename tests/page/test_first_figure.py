"""What a page shows first: a title that is a finding, and a figure that has every curve it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import toposcope as ts
from toposcope.page.figures.losses import ON_PAGE

STEPS = np.arange(10, 410, 10)


def losses(seed: int, factor: float = 1.0) -> np.ndarray:
    """A loss that falls, of one seed."""
    g = np.random.default_rng(seed)
    return factor * (2 + 4 * STEPS**-0.4) * (1 + 0.005 * g.standard_normal()) + 0.01 * g.standard_normal(40)


def curves(figure: Figure) -> dict[str, int]:
    """The curves of losses in a figure, with their number of points."""
    lines = [line for ax in figure.axes for line in ax.lines]
    return {
        str(line.get_gid())[5:]: len(line.get_xdata()) for line in lines if str(line.get_gid())[:5] == "loss "
    }


def test_a_log_alone_has_its_curve_in_the_first_figure(tmp_path: Path) -> None:
    path = tmp_path / "alone.csv"
    pd.DataFrame({"step": STEPS, "loss": losses(0)}).to_csv(path, index=False)
    (study,) = ts.analyze(path).studies
    drawn = curves(ON_PAGE.draw(study))
    assert next(iter(drawn.values())) > 10
    assert list(drawn) == ["alone"]


@pytest.mark.parametrize(("factor", "gid"), [(1.0, "ahead log"), (3.0, "")])
def test_forecast_and_faults_of_a_log_alone_stand_on_its_curve(
    tmp_path: Path, factor: float, gid: str
) -> None:
    step = np.arange(20, 3001, 20)
    loss = (2.2 + 4 * step**-0.35) * np.exp(0.01 * np.random.default_rng(0).standard_normal(len(step)))
    loss[-30:] *= np.linspace(1.0, factor, 30)
    lines = [f"step:{s}/5000 train_loss:{x:.4f} train_time:{s}ms" for s, x in zip(step, loss, strict=True)]
    (tmp_path / "log.log").write_text("\n".join(lines))
    (study,) = ts.analyze(tmp_path / "log.log").studies
    axes = ON_PAGE.draw(study).axes[0]
    gids = {line.get_gid() for line in axes.lines}
    assert "loss log" in gids
    assert (gid in gids) if gid else any("diverging" in one.get_text() for one in axes.texts)


def two_groups(tmp_path: Path) -> ts.Analysis:
    """Five seeds of which one has six times the learning rate and higher losses."""
    weights = {
        f"s{i}": {step: {"fc.weight": np.eye(4) * (1 + i + step / 1000)} for step in (0, 200, 400)}
        for i in range(5)
    }
    for name, steps in weights.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for step, tensors in steps.items():
            np.savez(folder / f"step_{step:06d}.npz", **tensors)
        rate = 0.006 if name == "s3" else 0.001
        (folder / "config.json").write_text(f'{{"learning_rate": {rate}}}')
        values = losses(int(name[1]), 1.15 if name == "s3" else 1.0)
        pd.DataFrame({"step": STEPS, "loss": values}).to_csv(folder / "log.csv", index=False)
    store = ts.measure(tmp_path / "runs", tmp_path / "store", features="baselines")
    metrics = pd.concat(
        [
            pd.DataFrame({"run": f"s{i}", "step": STEPS, "loss": losses(i, 1.15 if i == 3 else 1.0)})
            for i in range(5)
        ]
    )
    store.write_metrics(metrics)
    return ts.analyze(store.path)


def test_the_first_figure_has_the_odd_run_of_another_group(tmp_path: Path) -> None:
    first = two_groups(tmp_path).studies[0]
    assert "s3" not in set(first.runs["run"])
    figure = ON_PAGE.draw(first)
    assert set(curves(figure)) == {"s0", "s1", "s2", "s3", "s4"}
    (odd,) = (line for line in figure.axes[0].lines if line.get_gid() == "loss s3")
    siblings = [line for line in figure.axes[0].lines if line.get_gid() in ("loss s0", "loss s1")]
    assert odd.get_color() not in {line.get_color() for line in siblings}
    assert odd.get_linewidth() > max(line.get_linewidth() for line in siblings)
    assert "s3 (odd)" in {text.get_text() for text in figure.axes[0].texts}
    assert "Drawn separately, because it is unlike the others: s3." in ON_PAGE.caption(first).shows
    assert first.findings.first.title.startswith("Run s3 is not like its 4 siblings")


@pytest.mark.slow
def test_a_group_of_odd_runs_alone_says_nothing_twice(tmp_path: Path) -> None:
    analysis = two_groups(tmp_path)
    assert [study.aside for study in analysis.studies] == [False, True]
    assert repr(analysis).count("Run s3 is not like its 4 siblings") == 1
    page = ts.report(analysis, tmp_path / "page").page.read_text()
    assert page.count('<ul class="checks">') == 1
    assert page.count('<details class="part">') == 1
    assert page.index('<details class="part">') < page.index("0.006: answers")


def test_titles_are_findings(tmp_path: Path) -> None:
    one = {7: {"fc.weight": np.random.default_rng(0).standard_normal((6, 5))}}
    store = ts.measure(one, tmp_path / "store", features="baselines")
    title = ts.analyze(store).findings.first.title
    assert title.startswith("No fault was found in this checkpoint of memory") or title.startswith(
        "This checkpoint of memory was measured and not audited"
    )
    assert title.endswith("; a second checkpoint, or a log, would show how it trains.")
    g = np.random.default_rng(1)
    beside = pd.DataFrame({"step": STEPS, "loss": losses(0), "mine": g.standard_normal(40)})
    title = ts.analyze(beside).findings.first.title
    assert title == (
        "The other column adds nothing here: it does not move with the minibatch loss more than chance."
    )


@pytest.mark.slow
def test_a_notebook_shows_at_most_150_words(tmp_path: Path) -> None:
    runs = [
        pd.DataFrame({"run": f"s{i}", "step": STEPS, "loss": losses(i, 1.15 if i == 3 else 1.0)})
        for i in range(5)
    ]
    table = pd.concat(runs, ignore_index=True)
    g = np.random.default_rng(2)
    wide = table.assign(**{f"mine{i}": g.standard_normal(len(table)) for i in range(30)})
    seeds = [table[table["run"] == f"s{i}"] for i in range(5)]
    asked = (
        ts.check(table), ts.analyze(table), ts.analyze(wide), ts.compare(seeds[:2], seeds[2:]),
        ts.compare(seeds[0], seeds[1]), ts.forecast(table, horizon=800),
    )  # fmt: skip
    for shown in asked:
        words = re.sub(r"<style.*?</style>|<[^>]+>", " ", shown._repr_html_(), flags=re.DOTALL).split()
        assert 10 < len(words) <= 150
