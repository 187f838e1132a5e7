"""The optimiser's state as a subject: its numbers are those of torch's own step, and reach every place."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toposcope as ts
from toposcope.files.training_state.places import training_state
from toposcope.sources import open_series
from toposcope.subjects.optimizer.features import (
    ANGLE,
    EFFECTIVE_RATE,
    FLOOR,
    OF_MOMENTUM,
    OF_SCALED,
    SIGNAL,
    STALE,
    UPDATE_RMS,
)
from toposcope.subjects.optimizer.steps import FactoredRule, rule_of
from toposcope.watch.watching import Watching, WatchOptions

torch = pytest.importorskip("torch")

STEPS = (10, 20, 30)
RATE, DECAY = 1e-2, 0.1


class _Net(torch.nn.Module):
    """A network of matrices, two of one shape, with the names of a transformer's MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(12, 16, bias=False)
        self.mid = torch.nn.Linear(16, 16, bias=False)
        self.last = torch.nn.Linear(16, 16, bias=False)
        self.head = torch.nn.Linear(16, 5, bias=False)

    def forward(self, rows: Any) -> Any:
        return self.head(torch.tanh(self.last(torch.tanh(self.mid(torch.tanh(self.fc(rows)))))))


def trained(
    folder: Path, make: Callable[[Any], Any], *, steps: tuple[int, ...] = STEPS, save: Any = None
) -> dict[str, np.ndarray]:
    """Train in float64, write checkpoints as nanoGPT does, and return the weights before the last step."""
    torch.manual_seed(0)
    model = _Net().double()
    optimizer = make(model.parameters())
    folder.mkdir(exist_ok=True)
    before: dict[str, np.ndarray] = {}
    for step in range(1, steps[-1] + 1):
        optimizer.zero_grad()
        rows = torch.randn(8, 12, dtype=torch.float64)
        (model(rows) - rows[:, :5]).square().mean().backward()
        before = {name: one.detach().clone().numpy() for name, one in model.named_parameters()}
        optimizer.step()
        if step in steps:
            (save or _as_nanogpt)(folder, step, model, optimizer)
    trained.gradients = {name: one.grad.numpy() for name, one in model.named_parameters()}  # type: ignore[attr-defined]
    return before


def _as_nanogpt(folder: Path, step: int, model: Any, optimizer: Any) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}
    torch.save(state, folder / f"ckpt_{step}.pt")


def _as_transformers(folder: Path, step: int, model: Any, optimizer: Any) -> None:
    from safetensors.torch import save_file

    place = folder / f"checkpoint-{step}"
    place.mkdir()
    save_file(
        {name: one.contiguous() for name, one in model.state_dict().items()}, place / "model.safetensors"
    )
    torch.save(optimizer.state_dict(), place / "optimizer.pt")


def _adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)


def _rows(store: Any, feature: str) -> Any:
    rows = store.features(feature=feature)
    return rows[rows["step"] == STEPS[-1]]


@pytest.mark.parametrize(
    ("make", "decay"),
    [
        (_adamw, DECAY),
        (lambda ps: torch.optim.AdamW(ps, lr=RATE, amsgrad=True, weight_decay=0.0), 0.0),
        (lambda ps: torch.optim.Adam(ps, lr=RATE, betas=(0.8, 0.95), eps=1e-3), 0.0),
        (lambda ps: torch.optim.SGD(ps, lr=RATE, momentum=0.9), 0.0),
        (lambda ps: torch.optim.SGD(ps, lr=RATE, momentum=0.9, dampening=0.5, weight_decay=DECAY), 0.0),
        (lambda ps: torch.optim.Muon(ps, lr=RATE, nesterov=False, weight_decay=DECAY), DECAY),
        (
            lambda ps: torch.optim.Muon(
                ps, lr=RATE, nesterov=False, weight_decay=0.0, ns_steps=3, adjust_lr_fn="match_rms_adamw"
            ),
            0.0,
        ),
    ],
    ids=["adamw", "amsgrad", "adam", "sgd", "sgd-dampened", "muon", "muon-moonshot"],
)
def test_the_update_is_torchs_own_step(tmp_path: Path, make: Callable[[Any], Any], decay: float) -> None:
    before = trained(tmp_path / "run", make)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    weights = torch.load(tmp_path / "run" / "ckpt_30.pt", weights_only=True)["model"]
    rows = _rows(store, UPDATE_RMS.name).set_index("name")["value"]
    for name, past in before.items():
        step = past * (1 - RATE * decay) - weights[name].numpy()
        assert rows[name] == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-6)


def test_adafactors_rate_makes_torchs_own_step(tmp_path: Path) -> None:
    before = trained(tmp_path / "run", lambda ps: torch.optim.Adafactor(ps, lr=RATE, weight_decay=0.0))
    saved = torch.load(tmp_path / "run" / "ckpt_30.pt", weights_only=True)["model"]
    state = training_state(str(tmp_path / "run" / "ckpt_30.pt"))
    assert state is not None
    optimizer = state.optimizers[0]
    for (name, past), (key, kept) in zip(before.items(), optimizer.parameters.items(), strict=True):
        rule = rule_of(kept, optimizer.group_of(key), math.sqrt(np.mean(past**2)))
        assert isinstance(rule, FactoredRule)
        assert kept.second is not None
        second = kept.second.values().reshape(kept.second.shape)
        gradient = trained.gradients[name]  # type: ignore[attr-defined]
        scaled = gradient / np.sqrt(np.maximum(second, rule.least**2))
        clipped = max(1.0, math.sqrt(np.mean(scaled**2)))
        step = np.vectorize(rule.rate)(second) * gradient / clipped
        np.testing.assert_allclose(past - saved[name].numpy(), step, rtol=1e-6, atol=1e-12)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    assert len(_rows(store, EFFECTIVE_RATE.name))
    assert not len(_rows(store, UPDATE_RMS.name))


@pytest.mark.slow
def test_the_first_moment_of_transformers_adafactor_is_its_step(tmp_path: Path) -> None:
    optimization = pytest.importorskip("transformers.optimization")
    settings = {"beta1": 0.9, "relative_step": False, "scale_parameter": False}
    before = trained(tmp_path / "run", lambda ps: optimization.Adafactor(ps, lr=RATE, **settings))
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    weights = torch.load(tmp_path / "run" / "ckpt_30.pt", weights_only=True)["model"]
    rows = _rows(store, UPDATE_RMS.name).set_index("name")["value"]
    for name, past in before.items():
        step = past - weights[name].numpy()
        assert rows[name] == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-6)


def test_the_other_numbers_are_their_formulas(tmp_path: Path) -> None:
    trained(tmp_path / "run", _adamw)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    now, past = (torch.load(tmp_path / "run" / f"ckpt_{step}.pt", weights_only=True) for step in (30, 20))
    kept = now["optimizer"]["state"][1]
    m, v = (kept[name].numpy() for name in ("exp_avg", "exp_avg_sq"))
    m_hat, v_hat = m / (1 - 0.9**30), v / (1 - 0.999**30)
    change = (past["model"]["mid.weight"] - now["model"]["mid.weight"]).numpy()
    cosine = (m * change).sum() / np.linalg.norm(m) / np.linalg.norm(change)
    expected = {
        SIGNAL: np.mean(m_hat**2 / v_hat), FLOOR: 0.0, STALE: 0.0,
        EFFECTIVE_RATE: RATE / (math.sqrt(np.median(v_hat)) + 1e-8), ANGLE: math.degrees(math.acos(cosine)),
    }  # fmt: skip
    for feature, value in expected.items():
        rows = _rows(store, feature.name).set_index("name")["value"]
        assert rows["mid.weight"] == pytest.approx(value, rel=1e-6), feature.name
        every = rows[[name for name in rows.index if name.endswith(".weight")]]
        assert rows["model"] == pytest.approx(every.mean())


def test_the_persistence_is_that_of_the_weights_probe(tmp_path: Path) -> None:
    """Give the weights' own probe the moments as weights: both measure the same graph."""
    trained(tmp_path / "run", _adamw)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    kept = torch.load(tmp_path / "run" / "ckpt_30.pt", weights_only=True)["optimizer"]["state"]
    names = ("fc.weight", "mid.weight", "last.weight", "head.weight")
    m = {name: kept[at]["exp_avg"].numpy() for at, name in enumerate(names)}
    scaled = {name: m[name] / np.sqrt(kept[at]["exp_avg_sq"].numpy()) for at, name in enumerate(names)}
    for number, ((value, null, excess), graph) in enumerate(((OF_MOMENTUM, m), (OF_SCALED, scaled))):
        place = tmp_path / f"as_weights_{number}"
        other = ts.measure({30: graph}, place, features="neural_persistence").features(
            feature="neural_persistence"
        )
        other = other[(other["filtration"] == "seed004") & (other["scope"] == "matrix")]
        rows = _rows(store, value.name).set_index("name")["value"]
        for name, expected in other.set_index("name")["value"].items():
            assert rows[name] == pytest.approx(expected, rel=1e-5)
        nulls = _rows(store, null.name)
        assert len(nulls[nulls["name"] == "mid.weight"]) == 5
        mean = nulls[nulls["name"] == "model"]["value"].mean()
        assert _rows(store, excess.name).set_index("name")["value"]["model"] == pytest.approx(
            rows["model"] - mean
        )


def test_rows_that_get_no_gradient_are_stale_and_at_the_floor(tmp_path: Path) -> None:
    trained(tmp_path / "run", _adamw)
    for step in STEPS:
        place = tmp_path / "run" / f"ckpt_{step}.pt"
        now = torch.load(place, weights_only=True)
        kept = now["optimizer"]["state"][1]
        kept["exp_avg"][:4], kept["exp_avg_sq"][:4] = 0.0, 0.0  # a quarter never got a gradient
        kept["exp_avg_sq"][4:8] = 1e-4 * 0.999**step  # another got one before the first checkpoint
        torch.save(now, place)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    assert _rows(store, FLOOR.name).set_index("name")["value"]["mid.weight"] == pytest.approx(0.25)
    assert _rows(store, STALE.name).set_index("name")["value"]["mid.weight"] == pytest.approx(0.5)


def test_places_get_names_by_the_angle_with_the_last_change(tmp_path: Path) -> None:
    """The safetensors file sorts names, so the places of two matrices of one shape are not known by order."""
    before = trained(tmp_path / "run", _adamw, save=_as_transformers)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    rows = store.features(feature=UPDATE_RMS.name)
    first = set(rows[(rows["step"] == 10) & (rows["scope"] == "matrix")]["name"])
    assert first == {"fc.weight", "head.weight", "parameter 1", "parameter 2"}  # nothing before it
    last = _rows(store, UPDATE_RMS.name).set_index("name")["value"]
    from safetensors.torch import load_file

    weights = load_file(tmp_path / "run" / "checkpoint-30" / "model.safetensors")
    for name, past in before.items():
        step = past * (1 - RATE * DECAY) - weights[name].numpy()
        assert last[name] == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-6)


def _as_dcp(folder: Path, step: int, model: Any, optimizer: Any) -> None:
    """Save as torchtitan does: torch's own writer of distributed checkpoints, by names."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict as states

    tree = {
        "model": states.get_model_state_dict(model),
        "optimizer": states.get_optimizer_state_dict(
            model, optimizer, options=states.StateDictOptions(flatten_optimizer_state_dict=step == STEPS[-1])
        ),
        "train_state": {"step": torch.tensor(step)},
    }
    checkpoint.save(tree, checkpoint_id=folder / f"step-{step}", no_dist=True)


@pytest.mark.filterwarnings("ignore")
def test_the_update_is_torchs_own_step_in_a_distributed_checkpoint(tmp_path: Path) -> None:
    before = trained(tmp_path / "run", _adamw, save=_as_dcp)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    assert set(store.features(feature=UPDATE_RMS.name)["step"]) == set(STEPS)
    series = open_series(str(tmp_path / "run"))
    with series.reading(series.of_run(series.names[0])[-1]) as reader:
        weights = {name.removeprefix("model."): reader.read(name) for name in reader.infos()}
    rows = _rows(store, UPDATE_RMS.name).set_index("name")["value"]
    rows.index = rows.index.str.removeprefix("model.")
    for name, past in before.items():
        step = past * (1 - RATE * DECAY) - weights[name]
        assert rows[name] == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_update_is_torchs_own_step_in_lightnings_checkpoint(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    before: dict[str, np.ndarray] = {}

    class _Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = _Net().double()

        def training_step(self, batch: Any, index: int) -> Any:
            before.update({name: one.detach().clone().numpy() for name, one in self.named_parameters()})
            return (self.net(batch[0]) - batch[0][:, :5]).square().mean()

        def configure_optimizers(self) -> Any:
            return _adamw(self.parameters())

    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        str(tmp_path / "run"), filename="{step}", every_n_train_steps=10, save_top_k=-1
    )
    trainer = lightning.Trainer(
        max_steps=STEPS[-1], accelerator="cpu", logger=False, callbacks=[keep], enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    rows = torch.utils.data.TensorDataset(torch.randn(64, 12, dtype=torch.float64))
    trainer.fit(_Module(), torch.utils.data.DataLoader(rows, batch_size=8, num_workers=0))
    store = ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    weights = torch.load(tmp_path / "run" / "step=30.ckpt", weights_only=False)["state_dict"]
    last = _rows(store, UPDATE_RMS.name).set_index("name")["value"]
    for name, past in before.items():
        step = past * (1 - RATE * DECAY) - weights[name].numpy()
        assert last[name] == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-6)


def _without_state(folder: Path) -> Path:
    for step in STEPS:
        place = folder / f"ckpt_{step}.pt"
        now = torch.load(place, weights_only=True)
        del now["optimizer"]
        torch.save(now, place)
    return folder


def test_cheap_has_the_numbers_where_a_state_is_kept(tmp_path: Path) -> None:
    trained(tmp_path / "run", _adamw)
    store = ts.measure(str(tmp_path / "run"), tmp_path / "a", features="cheap")
    assert set(store.features(feature=UPDATE_RMS.name)["step"]) == set(STEPS)
    bare = ts.measure(str(_without_state(tmp_path / "run")), tmp_path / "b", features="cheap")
    assert UPDATE_RMS.name not in set(bare.features()["feature"])


def test_a_series_without_a_state_gets_one_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from toposcope.cli import main as cli

    trained(tmp_path / "run", _adamw)
    run = _without_state(tmp_path / "run")
    typed = ["optimizer", str(run), "--out", str(tmp_path / "store"), "--no-audit"]
    with pytest.raises(SystemExit) as ended:
        cli.main(typed)
    assert ended.value.code == 0
    said = capsys.readouterr().err
    assert said.count("no optimiser's state") == 1
    assert "3 of 3 checkpoints" in said


def test_a_plan_says_what_the_numbers_cost(tmp_path: Path) -> None:
    from toposcope.api.measurement import Measurement
    from toposcope.subjects.text_request import TextRequest
    from toposcope.subjects.weights.measurement import of_weights
    from toposcope.subjects.weights.options import WeightOptions
    from toposcope.sweep import Execution

    trained(tmp_path / "run", _adamw)
    prepared = of_weights(
        lambda split: open_series(str(tmp_path / "run"), split=split),
        ["cheap"],
        WeightOptions(),
        TextRequest(),
    )
    assert Measurement.of(prepared).plan(execution=Execution()).expectation.by_probe["moments"] > 0


def test_the_verdict_and_the_page_are_about_the_moments(tmp_path: Path) -> None:
    trained(tmp_path / "run", _adamw, steps=tuple(range(2, 42, 2)))
    ts.measure(str(tmp_path / "run"), tmp_path / "store", features="optimizer")
    analysis = ts.analyze(tmp_path / "store")
    assert OF_MOMENTUM[0].label.lower() in str(analysis).lower()
    ts.report(tmp_path / "store", tmp_path / "page")
    (page,) = (tmp_path / "page").glob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "Optimiser" in text
    assert UPDATE_RMS.label in text


def test_watch_names_the_matrix_whose_update_jumps(tmp_path: Path) -> None:
    """The second moment of one matrix falls, so its step grows a hundredfold, before any weight shows it."""
    steps = tuple(range(2, 42, 2))
    trained(tmp_path / "run", _adamw, steps=steps)
    place = tmp_path / "run" / "ckpt_40.pt"
    now = torch.load(place, weights_only=True)
    now["optimizer"]["state"][2]["exp_avg_sq"] *= 1e-4
    torch.save(now, place)
    options = WatchOptions(rest=0, out=tmp_path / "watched")
    with Watching(tmp_path / "run", options) as watching:
        watching.once()
        alarms = [event for event in watching.watchman.journal.read() if event.kind == "alarm"]
    assert [one.data["test"] for one in alarms] == ["matrix or head", "training state"]
    alarm = alarms[0]
    assert alarm.step == 40
    first = alarm.data["culprits"][0]
    assert first["name"] == "last.weight"
    assert first["feature"] in (UPDATE_RMS.name, EFFECTIVE_RATE.name)
