from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from toposcope.recipes import load_training_recipe
from toposcope.training.engine import Engine
from toposcope.training.model import GPT
from toposcope.training.schedule import learning_rate
from toposcope.training.shapes import GPTShape, first_values, parameter_shapes, split

_SEED004 = {"tiny-3k": 2936, "small-7k": 7408, "med-21k": 20640, "large-46k": 46368, "xl-97k": 97200}
_SEED001 = {"gpt-1k": 1276, "gpt-5k": 4980, "gpt-10k": 10688, "gpt-25k": 27864, "gpt-50k": 46368}


@pytest.mark.parametrize(
    ("recipe", "counts"), [("seed004", _SEED004), ("demo", _SEED004), ("seed001", _SEED001)]
)
def test_the_families_have_the_papers_numbers_of_parameters(recipe: str, counts: dict[str, int]) -> None:
    found = load_training_recipe(recipe)
    shapes = {model.name: GPTShape.in_recipe(model, found) for model in found.models}
    assert {name: shape.parameters for name, shape in shapes.items()} == counts
    for name, shape in shapes.items():
        assert sum(p.numel() for p in GPT(shape).parameters()) == counts[name]


def test_names_and_shapes_are_those_of_the_papers_checkpoints(shared_data: Path) -> None:
    for name in _SEED004:
        file = shared_data / "seed_runs" / name / "step_000000.pt"
        theirs = torch.load(file, weights_only=True, map_location="cpu")["model_state_dict"]
        recipe = load_training_recipe("seed004", {"models": name})
        shape = GPTShape.in_recipe(recipe.models[0], recipe)
        ours = GPT(shape).state_dict()
        assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


def test_the_papers_weights_predict_the_papers_text(shared_data: Path) -> None:
    """Trained weights of the paper reach the loss it logged, in this architecture only.

    They were trained on the text without `<unk>`, so its places are left out.
    """
    file = shared_data / "seed_runs" / "xl-97k" / "step_005000.pt"
    theirs = torch.load(file, weights_only=True, map_location="cpu")
    text = (shared_data / "wikitext2" / "wiki.train.tokens").read_text(encoding="utf-8")[: 96 * 129]
    unknown = re.sub("<unk> ?", lambda match: "\0" * len(match[0]), text)
    tokens = torch.tensor([ord(c) % 128 for c in text]).view(96, 129)
    known = torch.tensor([c != "\0" for c in unknown]).view(96, 129)[:, 1:]
    losses = {}
    for heads in (3, 4):
        model = GPT(GPTShape(vocabulary=128, context=128, width=48, layers=3, heads=heads))
        model.load_state_dict(theirs["model_state_dict"])
        with torch.no_grad():
            each = torch.nn.functional.cross_entropy(
                model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:], reduction="none"
            )
        losses[heads] = float(each[known].mean())
    assert abs(losses[4] - theirs["loss"]) < 0.08
    assert losses[3] > losses[4] + 0.3


def test_first_values_are_as_the_paper_says() -> None:
    shape = GPTShape(vocabulary=128, context=128, width=48, layers=3, heads=4)
    views = split(shape, first_values(shape, seed=1, std=0.02))
    assert views["head.weight"] is views["token_emb.weight"]
    assert set(views) == {name for name, _ in parameter_shapes(shape)} | {"head.weight"}
    for name, values in views.items():
        if name.endswith("bias"):
            assert (values == 0).all()
        elif "ln" in name:
            assert (values == 1).all()
        else:
            assert abs(values.std() - 0.02) < 0.001
            assert abs(values.mean()) < 0.002
    assert not np.array_equal(first_values(shape, seed=2, std=0.02), first_values(shape, seed=1, std=0.02))


def test_the_schedule_is_the_papers(shared_data: Path) -> None:
    import json

    log = json.loads((shared_data / "seed_runs" / "tiny-3k" / "training_log.json").read_text())
    recipe = load_training_recipe("seed004")
    ours = [learning_rate(recipe, row["step"]) for row in log]
    np.testing.assert_allclose(ours, [row["lr"] for row in log], rtol=1e-12)


def _engine() -> Engine:
    recipe = load_training_recipe(
        "seed004",
        {"models": "med-21k", "context": 16, "gradient_clip": 0.1, "weight_decay": 0.3},
    )
    shape = GPTShape.in_recipe(recipe.models[0], recipe)
    return Engine(shape, recipe, first_values(shape, seed=3, std=0.05), device="cpu")


def test_steps_equal_the_textbooks() -> None:
    """Same losses and weights as a plain model, torch's clipping and AdamW over separate parameters."""
    engine = _engine()
    model = GPT(engine.model.shape)
    model.load_state_dict(engine.model.state_dict())
    adam = torch.optim.AdamW(model.parameters(), weight_decay=0.3)
    generator = np.random.default_rng(0)
    for step in range(6):
        tokens = generator.integers(0, 128, (4, 17))
        adam.param_groups[0]["lr"] = 1e-2 / (step + 1)
        adam.zero_grad()
        loss = model.loss(torch.from_numpy(tokens))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        adam.step()
        assert engine.gradients(tokens) == pytest.approx(float(loss.detach()), abs=2e-6)
        grad_norm, _ = engine.norms()
        assert grad_norm == pytest.approx(float(norm), rel=1e-5)
        engine.update(1e-2 / (step + 1), grad_norm=grad_norm)
    for name, value in model.state_dict().items():
        if not name.endswith(
            "qkv.bias"
        ):  # keys' biases have gradient 0, of which Adam magnifies the rounding
            np.testing.assert_allclose(engine.model.state_dict()[name], value, atol=2e-5)


def test_state_restores_to_the_same_bits() -> None:
    generator = np.random.default_rng(1)
    batches = generator.integers(0, 128, (6, 4, 17))
    first = _engine()
    second = _engine()
    for i, tokens in enumerate(batches):
        if i == 3:
            second.restore(first.state(), step=3)
        for engine in (first, second) if i >= 3 else (first,):
            engine.gradients(tokens)
            engine.update(1e-2, grad_norm=engine.norms()[0])
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array)
