"""Summaries as MLflow runs, on a server or in a folder or database on this machine."""

from __future__ import annotations

import time
from typing import Any

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.watch.sinks.base import Summary

EXPERIMENT = "toposcope"


class MLflowSink:
    """Logs to one MLflow run per run, in experiment `toposcope` at a tracking address; alarms are tags."""

    kind = "mlflow"

    def __init__(self, address: str, argument: str = "sink") -> None:
        try:
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtraError("mlflow", "sinks") from None
        try:
            self._client: Any = MlflowClient(tracking_uri=address)
        except MlflowException as error:  # MLflow 3 opens no folder unless MLFLOW_ALLOW_FILE_STORE is set
            raise InputError(
                f"MLflow cannot open it: {str(error).partition('. ')[0]}",
                argument=argument,
                value=f"mlflow:{address}",
                remedy="give a server's address, or set MLFLOW_ALLOW_FILE_STORE=true to write into a folder",
            ) from None
        self._runs: dict[str, str] = {}

    def send(self, summary: Summary) -> None:
        """Log one summary in one call."""
        from mlflow.entities import Metric, RunTag

        if summary.run not in self._runs:
            known_experiment = self._client.get_experiment_by_name(EXPERIMENT)
            experiment = (
                known_experiment.experiment_id
                if known_experiment
                else self._client.create_experiment(EXPERIMENT)
            )
            self._runs[summary.run] = self._client.create_run(experiment, run_name=summary.run).info.run_id
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, summary.step) for name, value in summary.values.items()]
        tags = [
            RunTag(f"toposcope.alarm.{summary.step}.{i}", alarm) for i, alarm in enumerate(summary.alarms)
        ]
        tags += [RunTag("toposcope.verdict", summary.verdict)] if summary.verdict else []
        self._client.log_batch(self._runs[summary.run], metrics=metrics, tags=tags)
