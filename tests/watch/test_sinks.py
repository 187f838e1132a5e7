"""The sinks against the real packages where they are installed; they skip where they are not."""

import sys
import types

import numpy as np
import pytest

from tests.patience import PATIENCE
from toposcope.core.errors import InputError
from toposcope.core.types import Feature, Row, Status
from toposcope.sources import open_series
from toposcope.store import Result, Store, Unit
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep
from toposcope.watch.journal import Journal
from toposcope.watch.sinks import Collected, Summary, open_sink
from toposcope.watch.sinks.summaries import MOST, Forwarder
from toposcope.watch.watching import Watching, WatchOptions

SENT = [
    Summary("a/b", 10, {"toposcope/x": 1.5}),
    Summary("a/b", 20, {"toposcope/x": 2.5}, ("it broke",), "stop: it broke"),
]


def _send(where):
    sink = open_sink(where)
    for summary in SENT:
        sink.send(summary)
    return sink


def test_a_sink_that_is_none_is_refused():
    with pytest.raises(InputError, match="sink 'holes:x': not KIND:WHERE"):
        open_sink("holes:x")
    with pytest.raises(InputError, match="tensorboard:logs"):
        open_sink("wandb")


def test_every_checkpoint_is_one_summary_and_comes_once(tmp_path):
    options = WeightOptions()
    store = Store.create(tmp_path / "store", recipe=options.recipe())
    probes = weight_probes(["baselines", "neural_persistence", "updates"], options)
    states = {s: {f"layers.{i}.mlp.fc1.weight": np.eye(6) * (s + i) for i in range(4)} for s in (1, 2, 3)}
    sink = Collected()
    forwarder = Forwarder(store.path, [sink], begin=0)
    sweep(open_series({"r": states}), probes, store, execution=Execution(quiet=True, audit=False))
    Journal.of(store.path).append("alarm", "r", 3, test="content", sentence="it broke")
    assert forwarder.forward() == 3
    assert forwarder.forward() == 0
    assert [(one.run, one.step, one.alarms) for one in sink.sent] == [
        ("r", 1, ()), ("r", 2, ()), ("r", 3, ("it broke",)),
    ]  # fmt: skip
    names = list(sink.sent[1].values)
    assert len(names) <= MOST
    assert sink.sent[1].values["toposcope/updates/update_norm"] == pytest.approx(np.sqrt(4 * 6))
    norm = np.sqrt(sum(6 * (2 + i) ** 2 for i in range(4)))
    assert sink.sent[1].values["toposcope/baselines/weight_norm"] == pytest.approx(norm)
    assert not any("null" in name or "shuffled" in name for name in names)


def test_a_number_without_meaning_is_not_sent_and_moves_no_mean(tmp_path):
    store = Store.create(tmp_path / "store", recipe={"made for": "sinks"})
    store.write_catalogue("mine", (Feature("height", "height"), Feature("ratio", "ratio")))
    values = ((1.0, Status.OK), (2.0, Status.OK), (9e9, Status.DEGENERATE))
    rows = [
        Row("r", 5, "mine", "height", value, draw=draw, status=status)
        for draw, (value, status) in enumerate(values)
    ]
    rows.append(Row("r", 5, "mine", "ratio", 7.0, status=Status.DEGENERATE))
    sink = Collected()
    forwarder = Forwarder(store.path, [sink], begin=0)
    store.write_results([Result(Unit("r", 5, "mine", 1, "r 5"), tuple(rows))], keep_diagrams=False)
    assert forwarder.forward() == 1
    assert sink.sent[0].values == {"toposcope/mine/height": 1.5}


def test_a_new_forwarder_begins_with_what_comes_next(tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    Journal.of(store.path).append("alarm", "r", 3, test="content", sentence="old")
    sink = Collected()
    forwarder = Forwarder(store.path, [sink])
    Journal.of(store.path).append("alarm", "r", 4, test="content", sentence="new")
    forwarder.forward()
    assert [one.alarms for one in sink.sent] == [("new",)]


class Refusing(Collected):
    """A tracker whose server is down, until it is up again."""

    down = True

    def send(self, summary):
        if self.down:
            raise ConnectionError("refused\nby port 5000")
        super().send(summary)


def test_a_tracker_that_is_down_ends_no_watch_and_gets_everything_later(tmp_path):
    states = {step: {"layers.0.mlp.fc1.weight": np.eye(6) * step} for step in (1, 2)}
    for step, state in states.items():
        (tmp_path / "run").mkdir(exist_ok=True)
        np.savez(tmp_path / "run" / f"step_{step}.npz", **state)
    sink, sound = Refusing(), Collected()
    with Watching(tmp_path / "run", WatchOptions(rest=0, sinks=[sink, sound])) as watching:
        answer = watching.once()
        wanted = "memory: 2 summaries could not be sent: ConnectionError: refused"
        assert answer.problems == [wanted]
        assert f"unsent: {wanted}" in [line for line, _ in answer.lines]
        assert [one.step for one in sound.sent] == [1, 2]
        assert [one.kind for one in watching.visit()] == []  # named once
        sink.down = False
        assert watching.visit() == []
        assert [one.step for one in sink.sent] == [1, 2] == [one.step for one in sound.sent]


def test_what_trackio_prints_is_no_output_of_the_command(monkeypatch, capsys):
    run = types.SimpleNamespace(log=lambda values, step: print(f"logged {values} at {step}"))
    fake = types.ModuleType("trackio")
    fake.init, fake.finish, fake.alert = lambda **_: run, lambda: print("finished"), lambda **_: None
    monkeypatch.setitem(sys.modules, "trackio", fake)
    _send("trackio:project")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("finished") == len(SENT)


def test_tensorboard_reads_its_scalars_and_texts(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _send(f"tensorboard:{tmp_path}")
    (folder,) = tmp_path.iterdir()
    read = EventAccumulator(str(folder)).Reload()
    assert folder.name == "a_b"
    assert [(one.step, one.value) for one in read.Scalars("toposcope/x")] == [(10, 1.5), (20, 2.5)]
    assert read.Tensors("toposcope/alarm")[0].tensor_proto.string_val == [b"it broke"]
    assert read.Tensors("toposcope/verdict")[0].tensor_proto.string_val == [b"stop: it broke"]


def test_wandb_keeps_its_lines_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install wandb")
    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    sink = _send("wandb:project")
    run = sink._runs["a/b"]
    assert run.settings.mode == "offline"
    assert dict(run.summary)["toposcope/x"] == 2.5
    assert run.summary["toposcope/alarm"] == "step 20: it broke"
    assert run.summary["toposcope/verdict"] == "stop: it broke"
    run.finish()
    wandb.teardown()  # its service has written everything when it has ended
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"toposcope/x" in written.read_bytes()


def test_mlflow_answers_with_the_metrics_and_tags(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow-skinny")
    from mlflow.tracking import MlflowClient

    address = (tmp_path / "runs").as_uri()
    _send(f"mlflow:{address}")
    client = MlflowClient(tracking_uri=address)
    (run,) = client.search_runs([client.get_experiment_by_name("toposcope").experiment_id])
    history = client.get_metric_history(run.info.run_id, "toposcope/x")
    assert [(one.step, one.value) for one in history] == [(10, 1.5), (20, 2.5)]
    assert run.data.tags["toposcope.alarm.20.0"] == "it broke"
    assert run.data.tags["toposcope.verdict"] == "stop: it broke"


def test_an_address_that_mlflow_refuses_is_one_line(monkeypatch):
    refusal = type("MlflowException", (Exception,), {})

    def refuse(tracking_uri):
        raise refusal(f"The backend {tracking_uri} is in maintenance mode. Please migrate.")

    tracking, exceptions = types.ModuleType("mlflow.tracking"), types.ModuleType("mlflow.exceptions")
    tracking.MlflowClient, exceptions.MlflowException = refuse, refusal
    for module in (types.ModuleType("mlflow"), tracking, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(InputError, match=r"open it: The backend runs is in .*; give .*FILE_STORE=true"):
        open_sink("mlflow:runs")


def test_trackio_keeps_its_metrics_on_this_machine(tmp_path):
    pytest.importorskip("trackio", reason="trackio is not installed: pip install trackio")
    import os
    import subprocess

    code = (
        "from toposcope.watch.sinks import Summary, open_sink\n"
        "from trackio.sqlite_storage import SQLiteStorage\n"
        "sink = open_sink('trackio:project')\n"
        "sink.send(Summary('a', 10, {'toposcope/x': 1.5}))\n"
        "sink.send(Summary('a', 20, {'toposcope/x': 2.5}, ('it broke',), 'stop'))\n"
        "logs = SQLiteStorage.get_logs('project', 'a')\n"
        "print([(one['step'], one['toposcope/x'], one.get('toposcope/verdict')) for one in logs])\n"
    )  # its folder is read from the environment when it is imported
    made = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"TRACKIO_DIR": str(tmp_path)}, capture_output=True,
        text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert made.stdout.splitlines()[-1:] == ["[(10, 1.5, None), (20, 2.5, 'stop')]"], made.stderr
