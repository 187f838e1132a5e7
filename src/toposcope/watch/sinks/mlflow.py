"""Summaries as runs of MLflow, on a server or in a folder or database of this machine."""

from __future__ import annotations

import time
from typing import Any

from toposcope.core.errors import MissingExtraError
from toposcope.watch.sinks import Summary

EXPERIMENT = "toposcope"


class MLflowSink:
    """Logs to one run for each run, in experiment `toposcope` at a tracking address; alarms are tags."""

    def __init__(self, address: str) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtraError("mlflow", "sinks") from None
        self._client: Any = MlflowClient(tracking_uri=address)
        self._runs: dict[str, str] = {}

    def send(self, summary: Summary) -> None:
        """Log one summary in one call."""
        from mlflow.entities import Metric, RunTag

        if summary.run not in self._runs:
            known = self._client.get_experiment_by_name(EXPERIMENT)
            experiment = known.experiment_id if known else self._client.create_experiment(EXPERIMENT)
            self._runs[summary.run] = self._client.create_run(experiment, run_name=summary.run).info.run_id
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, summary.step) for name, value in summary.values.items()]
        tags = [
            RunTag(f"toposcope.alarm.{summary.step}.{i}", alarm) for i, alarm in enumerate(summary.alarms)
        ]
        self._client.log_batch(self._runs[summary.run], metrics=metrics, tags=tags)
