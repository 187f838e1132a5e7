from __future__ import annotations

import json

import numpy as np
import pytest

from toposcope.cli.main import main
from toposcope.cli.synth import SimulationOptions, command
from toposcope.core.errors import InputError
from toposcope.sources import open_series
from toposcope.synthetic import (
    Spectrum,
    SyntheticRecipe,
    draw_problem,
    exponent_table,
    flow_losses,
    simulate,
    size_exponent,
    time_exponent,
    write_family,
)


def test_random_features_approach_the_limit_of_infinite_width():
    spectrum = Spectrum(2.0, 1.5, 256)
    time = np.array([1.0, 3.0])
    limit = spectrum.loss_at(time)
    gaps = []
    for width in (64, 1024):
        drawn = [flow_losses(draw_problem(spectrum, width=width, outputs=4, seed=s), time) for s in range(3)]
        gaps.append(np.max(np.abs(np.mean(drawn, axis=0) / limit - 1)))
    assert gaps[1] < gaps[0]
    assert gaps[1] < 0.05


def test_steps_without_noise_follow_the_gradient_flow():
    recipe = SyntheticRecipe(
        Spectrum(1.5, 1.25, 128),
        schedule="constant",
        batch=0,
        steps=400,
        learning_rate=0.02,
        warmup_share=0.0,
    )
    run = simulate(recipe, width=32)
    exact = flow_losses(run.problem, np.array([8.0]))[0]
    assert run.metrics["heldout_loss"].iloc[-1] == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize(("a", "b"), [(1.5, 1.25), (2.0, 1.5)])
def test_fitted_exponents_agree_with_theory(a, b):
    spectrum = Spectrum(a, b, 512)
    quiet = SyntheticRecipe(spectrum, batch=0, schedule="constant", steps=1000, outputs=2)
    fits = {
        "time": time_exponent(simulate(quiet, width=0)),
        "size": size_exponent(spectrum, (16, 32, 64, 128), seeds=range(6), outputs=2),
    }
    table = exponent_table(spectrum, fits)
    assert table["agrees"].all(), table.to_string()


def test_label_noise_and_finite_data_leave_a_floor():
    spectrum = Spectrum(2.0, 1.5, 128)
    clean = simulate(SyntheticRecipe(spectrum, steps=300, batch=0), width=16)
    noisy = simulate(SyntheticRecipe(spectrum, steps=300, batch=0, noise=0.3), width=16)
    gap = noisy.metrics["loss"] - clean.metrics["loss"]
    assert np.allclose(gap, 0.3, atol=1e-6)
    few = simulate(SyntheticRecipe(spectrum, steps=300, batch=0, data=8), width=64)
    assert few.metrics["heldout_loss"].iloc[-1] > 2 * few.metrics["loss"].iloc[-1]


def test_written_runs_open_as_a_series(tmp_path):
    recipe = SyntheticRecipe(Spectrum(1.5, 1.25, 64), steps=100, checkpoints=3, outputs=4)
    for width in (8, 0):
        write_family(tmp_path, recipe, simulate(recipe, width=width))
    series = open_series(str(tmp_path))
    assert {run.run for run in series.runs} == {"width0008-seed0", "limit-seed0"}
    assert len(series) == 6
    losses = series.metrics("width0008-seed0")
    assert len(losses) == 101
    assert losses["heldout_loss"].notna().sum() == 3
    with pytest.raises(InputError, match="exists and is not empty; choose another `out`"):
        write_family(tmp_path, recipe, simulate(recipe, width=8))


def test_same_seed_same_run():
    recipe = SyntheticRecipe(Spectrum(1.5, 1.25, 64), steps=60)
    a, b = simulate(recipe, width=8), simulate(recipe, width=8)
    assert a.metrics.equals(b.metrics)
    assert not a.metrics.equals(simulate(recipe, width=8, seed=1).metrics)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(a=1.0), "finite only for a > 1"),
        (lambda: Spectrum(b=0.0), "decays only for b > 0"),
        (lambda: Spectrum(modes=2), "at least 8"),
        (lambda: SyntheticRecipe(schedule="step"), "not one of constant, cosine, wsd"),
        (lambda: SyntheticRecipe(learning_rate=2.0), "between 0 and 1"),
        (lambda: SyntheticRecipe(steps=3), "at least 50"),
        (lambda: draw_problem(Spectrum(), width=1), "give 0 or at least 2"),
    ],
)
def test_bad_settings_name_the_remedy(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_options_have_the_defaults_of_a_recipe():
    typed = command.make_context("synth", ["--out", "runs"]).params
    del typed["as_json"]
    assert SimulationOptions(**typed).recipe(0) == SyntheticRecipe()


def test_command_writes_a_family_and_prints_exponents(tmp_path, capsys):
    options = ["--modes", "64", "--widths", "8,0", "--updates", "200", "--checkpoints", "3", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["synth", "--out", str(tmp_path / "family"), *options])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["runs"]) == 2
    assert printed["theory"]["time"] == pytest.approx(-0.4)
    with pytest.raises(SystemExit) as ended:
        main(["forecast", str(tmp_path / "family"), "--cuts", "2"])
    assert ended.value.code == 2


def test_a_simulated_run_has_no_language_model(tmp_path, capsys):
    options = ["--modes", "64", "--widths", "8", "--updates", "50", "--checkpoints", "3"]
    with pytest.raises(SystemExit) as ended:
        main(["synth", "--out", str(tmp_path / "family"), *options])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("No exponents were fitted.")
    texts = tmp_path / "texts.txt"
    texts.write_text("one text of some length\n" * 40)
    for subject in ("landscape", "embeddings"):
        with pytest.raises(SystemExit) as ended:
            main([subject, str(tmp_path / "family"), "--out", str(tmp_path / subject), "--texts", str(texts),
                  *(["--limit", "20", "--min-chars", "1"] if subject == "embeddings" else [])])  # fmt: skip
        assert ended.value.code == 2
        assert "no language model; toposcope weights measures it" in capsys.readouterr().err
        assert not (tmp_path / subject).exists()


def printed_exponents(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    return {row["exponent"]: row for row in json.loads(capsys.readouterr().out)["exponents"]}


def test_the_printed_exponents_come_from_the_runs_that_were_written(tmp_path, capsys):
    options = ["--modes", "256", "--updates", "300", "--batch", "0", "--checkpoints", "2"]
    found = printed_exponents(
        ["synth", "--out", str(tmp_path / "w"), "--widths", "8,16,32,0", *options], capsys
    )
    series = open_series(str(tmp_path / "w"))
    sizes = {run.run: run.parameters for run in series.runs}
    assert sizes["limit-seed0"] == 0
    last = {run: series.metrics(run)["heldout_loss"].dropna().iloc[-1] for run in sizes}
    finite = [run for run in sizes if sizes[run]]
    slope = np.polyfit(np.log([sizes[run] for run in finite]), np.log([last[run] for run in finite]), 1)[0]
    assert found["size"]["fitted"] == pytest.approx(slope, rel=1e-6)
    assert found["size"]["n"] == 3
    assert "at step 300" in found["size"]["reason"]
    call = ["synth", "--out", str(tmp_path / "d"), "--widths", "0", "--data", "8,16,32", *options]
    assert printed_exponents(call, capsys)["data"]["n"] == 3
    assert len(list((tmp_path / "d").iterdir())) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "1,1"], "--seeds '1,1': one is repeated"),
        (["--widths", "8,8"], "--widths '8,8': one is repeated"),
        (["--widths", "8,x"], "--widths '8,x': not a list of whole numbers; write for example 16,32,64"),
        (["--data", "8,8"], "give each number of examples once"),
        (["--b", "1"], "the trace of the spectrum k^-b diverges"),
    ],
)
def test_the_command_refuses_before_writing(options, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["synth", "--out", str(tmp_path / "x"), *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_command_writes_families_of_random_exponents(tmp_path, capsys):
    arguments = [
        "synth",
        "--out",
        str(tmp_path / "many"),
        "--families",
        "2",
        "--widths",
        "8",
        "--modes",
        "32",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--updates", "50", "--checkpoints", "2", "--json"])
    assert ended.value.code == 0
    made = json.loads(capsys.readouterr().out)["families"]
    assert len({(one["a"], one["b"]) for one in made}) == 2
    for one in made:
        series = open_series(one["folder"])
        assert series.runs[0].config["a"] == one["a"]
        assert len(series) == 2
