"""Exports of SwanLab, aim, ClearML and Comet, in the forms that their documentation and packages show."""

from __future__ import annotations

import csv
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import toposcope as ts
from toposcope.core.errors import InputError

STEPS = range(1, 41)


def loss(step: int) -> float:
    return 2 + 5 * step**-0.5


def held(step: int) -> float:
    return loss(step) + 0.1


def _table(file: Path, head: list[str], rows: list[list[object]]) -> Path:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([head, *rows])
    return file


def aim_csv(folder: Path) -> Path:
    """What `dataframe(include_run, include_name, include_context)` of a collection of metrics writes."""
    head = ["", "idx", "step", "value", "epoch", "time", "run.hash", "run.hparams.lr", "metric.name",
            "metric.context.subset"]  # fmt: skip
    sets = (("train", loss), ("val", held))
    rows = [
        [n, n, step, of(step), 0, "2026-01-01", "a1b2c3", 0.001, "loss", name]
        for name, of in sets
        for n, step in enumerate(STEPS)
    ]
    return _table(folder / "aim.csv", head, rows)


def swanlab_csv(folder: Path) -> Path:
    """A chart's export: a value and a time for each run and number."""
    names = ("exp-1-train/loss", "exp-1-val/loss")
    head = ["step", *(f"{name}_{end}" for name in names for end in ("step", "timestamp"))]
    rows = [[step, loss(step), 1757001865 + step, held(step), 1757001865 + step] for step in STEPS]
    return _table(folder / "swanlab.csv", head, rows)


def swanlab_json(folder: Path) -> Path:
    """What `swanlab api run metrics PATH --save` writes."""
    series = [
        {"projectId": "p", "experimentId": "e", "key": key,
         "metrics": [{"step": step, "value": of(step), "timestamp": 1757001865179} for step in STEPS]}
        for key, of in (("train/loss", loss), ("val/loss", held))
    ]  # fmt: skip
    (folder / "swanlab.json").write_text(json.dumps(series))
    return folder / "swanlab.json"


def clearml_json(folder: Path) -> Path:
    """What `Task.get_reported_scalars` returns."""
    axes = {name: {"x": [*STEPS], "y": [*map(of, STEPS)]} for name, of in (("train", loss), ("val", held))}
    content = {"loss": axes, ":monitor:machine": {"cpu_usage": {"x": [1, 2], "y": [3.0, 4.0]}}}
    (folder / "clearml.json").write_text(json.dumps(content))
    return folder / "clearml.json"


def clearml_offline(folder: Path) -> Path:
    """The metrics.jsonl of an offline task: a list of records on each line."""
    rows = [
        {"timestamp": 1, "type": "training_stats_scalar", "task": "offline-9", "iter": step,
         "metric": "loss", "variant": name, "value": of(step), "method": "get"}
        for name, of in (("train", loss), ("val", held)) for step in STEPS
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text(f"{json.dumps(rows[:30])}\n{json.dumps(rows[30:])}\n")
    return folder / "metrics.jsonl"


def comet_json(folder: Path) -> Path:
    """What `APIExperiment.get_metrics` returns: values as texts, and system metrics without a step."""
    rows = [
        {"metricName": name, "metricValue": str(of(step)), "timestamp": 1757001865179, "step": step,
         "epoch": 0, "runContext": None, "offset": -step}
        for name, of in (("train_loss", loss), ("val_loss", held)) for step in STEPS
    ]  # fmt: skip
    system = {"metricName": "sys.gpu.0.total", "metricValue": "1e9", "step": None, "epoch": None}
    (folder / "comet.json").write_text(json.dumps([system, *rows]))
    return folder / "comet.json"


def comet_messages(folder: Path) -> Path:
    """The messages.json in the archive of an offline experiment: a message on each line."""
    lines = [{"payload": {"file_name": "train.py", "message_id": 1}, "type": "file_name"}]
    lines += [
        {"payload": {"local_timestamp": 1, "message_id": 2,
                     "metric": {"epoch": None, "metricName": name, "metricValue": of(step), "step": step}},
         "type": "metric_msg"}
        for step in STEPS for name, of in (("train_loss", loss), ("val_loss", held))
    ]  # fmt: skip
    (folder / "messages.json").write_text("\n".join(map(json.dumps, lines)))
    return folder / "messages.json"


def _varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low]) if number < 0x80 else bytes([low | 0x80]) + _varint(number >> 7)


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def swanlab_run(folder: Path) -> Path:
    """A run folder of SwanLab, in which run-ID.swanlab has a record for each number."""
    records = [_field(10, _field(1, b"project") + _field(4, b"fox-1"))]
    for step in STEPS:
        for key, of in ((b"train/loss", loss), (b"val/loss", held)):
            value = _varint(1 << 3 | 1) + struct.pack("<d", of(step))
            scalar = _field(1, key) + _field(2, step) + _field(3, 1) + _field(5, value)
            records.append(_field(1, len(records)) + _field(13, scalar))
    run = folder / "swanlog" / "run-20260101_000000-x1"
    (run / "logs" / "1").mkdir(parents=True, exist_ok=True)
    (run / "logs" / "1" / "1000.log").write_text('{"index": 1, "data": 7.0}\n')
    pieces = b"".join(struct.pack("<IHB", 0, len(one), 1) + one for one in records)
    (run / "run-x1.swanlab").write_bytes(b":SWL\xd6\xe1\x02" + pieces)
    return folder / "swanlog"


FORMS: tuple[Callable[[Path], Path], ...] = (
    aim_csv, swanlab_csv, swanlab_json, swanlab_run, clearml_json, clearml_offline, comet_json,
    comet_messages,
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_an_export_has_its_losses_of_training_and_of_evaluation(
    form: Callable[[Path], Path], tmp_path: Path
) -> None:
    (run,) = ts.read_log(form(tmp_path)).runs
    rows = run.table.sort_values("step")
    rows = rows[rows["loss"].notna()]
    assert rows["step"].tolist() == [*STEPS]
    assert rows["loss"].tolist() == pytest.approx([*map(loss, STEPS)])
    assert rows["heldout_loss"].tolist() == pytest.approx([*map(held, STEPS)])
    assert ts.check(form(tmp_path)).level == "all right"


def test_two_runs_of_swanlab_are_two_runs(tmp_path: Path) -> None:
    head = ["step", *(f"{run}-loss_{end}" for run in ("a-1", "b") for end in ("step", "timestamp"))]
    file = _table(tmp_path / "two.csv", head, [[step, loss(step), 1, held(step), 1] for step in STEPS])
    assert [run.name for run in ts.read_log(file).runs] == ["a-1", "b"]


def test_an_archive_says_what_to_unzip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("messages.json", "{}")
    for place in (tmp_path / "x.zip", tmp_path):
        with pytest.raises(
            InputError, match=r"x.zip: is an archive; unzip it and give .*messages\.json of Comet"
        ):
            ts.check(place)


def test_a_repository_of_aim_says_how_to_export_it(tmp_path: Path) -> None:
    (tmp_path / ".aim" / "meta").mkdir(parents=True)
    with pytest.raises(InputError, match=r"is a repository of aim.*query_metrics\(\)\.dataframe\(") as error:
        ts.check(tmp_path)
    assert "\n" not in str(error.value)
