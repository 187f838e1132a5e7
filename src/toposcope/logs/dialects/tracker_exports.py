"""What the interfaces of trackers give as JSON: series of points by name, and records of one number each.

These are the answers of ClearML's `get_reported_scalars` and of SwanLab's `run.metrics`, and the messages of
an offline experiment of Comet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toposcope.logs.records import number


def records_of_export(content: object) -> list[dict[str, Any]]:
    """Return the records of an export, a row for each step or each number; empty for anything else.

    >>> records_of_export({"loss": {"train": {"x": [10, 20], "y": [2.5, 2.25]}}})
    [{'step': 10, 'train/loss': 2.5}, {'step': 20, 'train/loss': 2.25}]
    >>> records_of_export([{"key": "loss", "metrics": [{"step": 10, "value": 2.5}]}])
    [{'step': 10, 'loss': 2.5}]
    """
    rows: dict[float, dict[str, Any]] = {}
    for name, step, value in (*_of_axes(content), *_of_keys(content)):
        rows.setdefault(step, {"step": step})[name] = value
    return [rows[step] for step in sorted(rows)]


def named(metric: str, variant: str) -> str:
    """Return the name of a series of a metric.

    >>> named("loss", "train"), named("train_loss", "train_loss"), named("loss", "")
    ('train/loss', 'train_loss', 'loss')
    """
    return metric if variant in ("", metric) else f"{variant}/{metric}"


def _of_axes(content: object) -> Iterator[tuple[str, float, Any]]:
    """Yield the points of ClearML's scalars: a title, its series, and `x` and `y` of each."""
    for title, series in content.items() if isinstance(content, Mapping) else ():
        for variant, axes in series.items() if isinstance(series, Mapping) else ():
            x, y = (axes.get(name) for name in "xy") if isinstance(axes, Mapping) else (None, None)
            if isinstance(x, list) and isinstance(y, list):
                points = zip(x, y, strict=False)
                yield from (
                    (named(title, variant), step, point) for step, point in points if _is_number(step)
                )


def _of_keys(content: object) -> Iterator[tuple[str, float, Any]]:
    """Yield the points of SwanLab's metrics: a key, and `step` and `value` of each."""
    if isinstance(content, Mapping) and not isinstance(content.get("key"), str):
        content = next((item for item in content.values() if isinstance(item, list)), [])
    for series in content if isinstance(content, list) else [content]:
        points = series.get("metrics") if isinstance(series, Mapping) else None
        key = series.get("key") if isinstance(series, Mapping) else None
        if not isinstance(points, list) or not isinstance(key, str):
            continue
        for point in points:
            if isinstance(point, Mapping) and _is_number(point.get("step")) and "value" in point:
                yield key, point["step"], point["value"]


def metric_among(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metric in a message of an offline experiment of Comet, None in its other messages.

    A record of another kind is returned as it is.

    >>> metric_among({"type": "metric_msg", "payload": {"metric": {"metricName": "loss"}}})
    {'metricName': 'loss'}
    >>> metric_among({"type": "file_name", "payload": {"file_name": "a.py"}}), metric_among({"step": 1})
    (None, {'step': 1})
    """
    payload = record.get("payload")
    if not isinstance(payload, dict) or "type" not in record:
        return record
    metric = payload.get("metric")
    return metric if isinstance(metric, dict) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and number(value) == number(value)
