import functools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from tests.patience import PATIENCE
from toposcope.core.errors import InputError
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep
from toposcope.watch._live_weights import why_refused
from toposcope.watch.inside import Monitor
from toposcope.watch.journal import Journal

torch = pytest.importorskip("torch")

FEATURES = ["baselines", "updates"]


def _network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 4))


def _train(model, step):
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            torch.manual_seed(100 * step + index)
            parameter.add_(0.01 * torch.randn_like(parameter))


def test_what_is_measured_inside_is_what_a_sweep_of_the_same_weights_measures(tmp_path):
    from safetensors.torch import save_file

    model = _network()
    with Monitor(tmp_path / "inside", run="r", every=10, features=FEATURES) as monitor:
        for step in range(0, 31, 10):
            _train(model, step)
            (tmp_path / "r").mkdir(exist_ok=True)
            save_file(model.state_dict(), tmp_path / "r" / f"step_{step}.safetensors")
            monitor.observe(model, step, loss=2.0)
            assert monitor.wait()
    offline = Store.create(tmp_path / "offline", recipe={})
    probes = weight_probes(FEATURES, WeightOptions())
    sweep(open_series(tmp_path / "r"), probes, offline, execution=Execution(quiet=True, audit=False))
    columns = ["run", "step", "probe", "name", "feature", "value", "status", "content_hash"]
    tables = [
        store.features()[columns].sort_values(columns[:5]).reset_index(drop=True)
        for store in (monitor.store, offline)
    ]
    assert len(tables[0])
    assert tables[0].equals(tables[1])
    assert monitor.counts == {"observed": 4, "measured": 4, "skipped": 0}
    assert monitor.store.metrics()["loss"].tolist() == [2.0] * 4


def test_a_copy_is_a_copy(tmp_path):
    model = _network()
    norm = float(torch.sqrt(sum((p.detach() ** 2).sum() for p in model.parameters() if p.ndim == 2)))
    with Monitor(tmp_path / "s", every=10, features=["baselines"]) as monitor:
        monitor.observe(model, 0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    value = monitor.store.features("baselines", "weight_norm")["value"].item()
    assert value == pytest.approx(norm, rel=1e-6)


def test_late_copies_are_skipped_and_the_skip_is_recorded(tmp_path, monkeypatch):
    import threading

    go = threading.Event()
    monitor = Monitor(tmp_path / "s", every=1, features=["baselines"])
    usual = monitor._background._measure
    monkeypatch.setattr(monitor._background, "_measure", lambda copy: (go.wait(20), usual(copy)))
    for step in range(5):
        monitor.observe(_network(), step, loss=1.0)
    go.set()
    monitor.close()
    assert monitor.counts == {"observed": 5, "measured": 1, "skipped": 4}
    skipped = [event for event in Journal.of(monitor.store.path).read() if event.kind == "skipped"]
    assert [event.step for event in skipped] == [1, 2, 3, 4]


def test_above_the_budget_tensors_take_turns(tmp_path):
    model = _network()
    with Monitor(tmp_path / "s", every=1, bytes_per_step=200, features=["baselines"]) as monitor:
        for step in range(4):
            monitor.observe(model, step)
            assert monitor.wait()
    table = monitor.store.features("baselines", "frobenius_norm")
    assert set(table["name"]) == {"0.weight", "1.weight"}
    assert set(table["scope"]) == {"matrix"}
    truth = {name: float(p.detach().norm()) for name, p in model.named_parameters()}
    for name, value in zip(table["name"], table["value"], strict=True):
        assert value == pytest.approx(truth[name], rel=1e-6)


def test_nothing_is_ever_raised_into_training(tmp_path):
    class Broken:
        def state_dict(self, **_):
            raise RuntimeError("device lost")

    with Monitor(tmp_path / "s", every=1) as monitor:
        monitor.observe(Broken(), 0, loss=1.0)
        monitor.observe(None, 1, loss="no number")
    events = Journal.of(monitor.store.path).read()
    told = [event.data["sentence"] for event in events if event.kind == "notice"]
    assert any("device lost" in one for one in told)
    assert len(told) == 2


class FullyShardedDataParallel(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def test_sharded_models_are_refused_with_the_sidecars_command(tmp_path):
    assert why_refused(_network()) == ""
    zero = _network()
    next(zero.parameters()).ds_id = 1
    assert "ZeRO" in why_refused(zero)
    with Monitor(tmp_path / "s", every=1) as monitor:
        monitor.observe(FullyShardedDataParallel(_network()), 0, loss=1.0)
    assert "toposcope watch" in monitor.refused
    assert monitor.counts["measured"] == 0
    assert monitor.store.metrics()["loss"].tolist() == [1.0]


def test_losses_of_a_sharded_model_are_judged_while_it_trains(tmp_path):
    model = FullyShardedDataParallel(_network())
    with Monitor(tmp_path / "s", every=10) as monitor:
        for step in range(61):
            monitor.observe(model, step, loss=2.0 if step < 45 else float("nan"))
            if step % 10 == 0:
                assert monitor.wait(PATIENCE)
        alarms = [event for event in Journal.of(tmp_path / "s").read() if event.kind == "alarm"]
        assert [event.data["test"] for event in alarms] == ["loss not finite"]
        assert len(monitor.store.metrics()) == 61
    assert monitor.counts["measured"] == 0


@pytest.mark.parametrize("option", ["every", "bytes_per_step"])
def test_impossible_settings_are_refused(tmp_path, option):
    with pytest.raises(InputError, match=f"{option} 0: it must be at least 1"):
        Monitor(tmp_path / "s", **{option: 0})


def test_metrics_are_on_disk_when_the_process_is_killed(tmp_path):
    program = textwrap.dedent(f"""
        import os, signal, numpy as np
        from toposcope import Monitor
        monitor = Monitor({str(tmp_path / "s")!r}, every=1000, features=["baselines"])
        for step in range(1, 8):
            monitor.observe({{"w.weight": np.eye(3, dtype=np.float32)}}, step, loss=step)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    lines = (tmp_path / "s" / "watch" / "run.metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    with (tmp_path / "s" / "watch" / "run.metrics.jsonl").open("a") as torn:
        torn.write('{"step": 9, "lo')
    with Monitor(tmp_path / "s", every=1000, features=["baselines"]) as again:
        again.observe({"w.weight": np.eye(3, dtype=np.float32)}, 8, loss=8)
    assert again.store.metrics()["step"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_metrics_that_come_later_join_those_of_the_same_step(tmp_path):
    weights = {"w.weight": np.eye(3, dtype=np.float32)}
    with Monitor(tmp_path / "s", every=4, features=["baselines"]) as monitor:
        for step in range(1, 13):
            monitor.observe(weights, step, loss=step)
            monitor._work.join()
        monitor.observe(weights, 3, heldout_loss=0.5)
    table = monitor.store.metrics()
    assert table["loss"].tolist() == list(range(1, 13))
    assert table.dropna(subset=["heldout_loss"])["step"].tolist() == [3]


def test_the_transformers_trainer_is_watched(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from toposcope.watch.callbacks import transformers_callback

    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    data = [{"input_ids": torch.arange(6), "labels": torch.arange(6)} for _ in range(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"), max_steps=6, per_device_train_batch_size=2, logging_steps=2, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    monitor = Monitor(tmp_path / "s", run="hf", every=3, features=FEATURES)
    trainer = transformers.Trainer(
        model, arguments, train_dataset=data, callbacks=[transformers_callback(monitor)]
    )
    trainer.train()
    features = monitor.store.features("updates")
    assert monitor.counts["measured"] + monitor.counts["skipped"] == 3
    assert (features["scope"] == "head").any()
    assert monitor.store.metrics().dropna(subset=["loss"])["step"].tolist() == [2, 4, 6]


def test_a_lightning_trainer_is_watched(tmp_path, monkeypatch):
    lightning = pytest.importorskip("lightning")
    from toposcope.watch.callbacks import lightning_callback

    class Small(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def training_step(self, batch, _):
            loss = self.layer(batch[0]).square().mean()
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    monkeypatch.chdir(tmp_path)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(12, 4)), batch_size=2)
    monitor = Monitor(tmp_path / "s", run="pl", every=3, features=FEATURES)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lightning's own advice on workers and loggers
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=2,
            callbacks=[lightning_callback(monitor)],
        )  # fmt: skip
        trainer.fit(Small(), data)
    assert monitor.counts["measured"] + monitor.counts["skipped"] == 3
    assert monitor.store.metrics().dropna(subset=["loss"])["step"].tolist() == [2, 4, 6]


def _shown_in_the_docs(word):
    page = (Path(__file__).parents[2] / "docs" / "watch.md").read_text(encoding="utf-8")
    [block] = [block for block in re.findall(r"```python\n(.*?)```", page, re.S) if word in block]
    return block


def test_the_three_lines_for_a_plain_loop_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = _network()

    def train(model, batch):
        _train(model, batch)
        return 2.0 / batch

    exec(
        _shown_in_the_docs("a loop of your own"),
        {"ts": ts, "model": model, "batches": [1, 2], "train": train},
    )
    assert ts.open_store("watched").metrics()["loss"].tolist() == [2.0, 1.0]


def test_the_three_lines_for_transformers_run(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=8)
    arguments = transformers.TrainingArguments(
        "out", max_steps=4, per_device_train_batch_size=2, logging_steps=2, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    names = {
        "Trainer": transformers.Trainer,
        "model": transformers.GPT2LMHeadModel(config),
        "arguments": arguments,
        "data": [{"input_ids": torch.arange(6), "labels": torch.arange(6)} for _ in range(8)],
    }
    exec(_shown_in_the_docs("transformers_callback"), names)
    metrics = ts.open_store("watched").metrics().dropna(subset=["loss"])
    assert metrics["step"].tolist() == [2, 4]
    assert set(metrics["run"]) == {"seed1"}


def test_the_three_lines_for_lightning_run(tmp_path, monkeypatch):
    lightning = pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)

    class Small(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def training_step(self, batch, _):
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = functools.partial(
        lightning.Trainer, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=2,
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.ones(8, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    names = {"Trainer": quiet, "module": Small(), "loader": loader}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lightning's own advice on workers and loggers
        exec(_shown_in_the_docs("lightning_callback"), names)
    assert ts.open_store("watched").metrics().dropna(subset=["loss"])["step"].tolist() == [2, 4]


def test_a_callback_refuses_settings_beside_a_monitor(tmp_path):
    pytest.importorskip("transformers")
    from toposcope.watch.callbacks import transformers_callback

    with (
        Monitor(tmp_path / "s") as monitor,
        pytest.raises(InputError, match="every: it is a setting of the Monitor, which is given; give it to"),
    ):
        transformers_callback(monitor, every=3)
