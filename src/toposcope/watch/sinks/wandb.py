"""Summaries as Weights & Biases runs; WANDB_MODE=offline keeps them on this machine."""

from __future__ import annotations

from typing import Any

from toposcope.core.errors import MissingExtraError
from toposcope.watch.sinks.base import Summary

STEP = "toposcope/step"


class WandbSink:
    """Logs to one W&B run of `project` per run, with its own step axis."""

    kind = "wandb"

    def __init__(self, project: str) -> None:
        try:
            import wandb as _  # noqa: F401
        except ImportError:
            raise MissingExtraError("wandb", "sinks") from None
        self._project = project
        self._runs: dict[str, Any] = {}

    def send(self, summary: Summary) -> None:
        """Log one summary; an alarm raises an alert as well."""
        import wandb

        if summary.run not in self._runs:
            run = wandb.init(project=self._project, name=summary.run, reinit="create_new")
            run.define_metric("toposcope/*", step_metric=STEP)
            self._runs[summary.run] = run
        run = self._runs[summary.run]
        run.log({**summary.values, STEP: summary.step, "toposcope/alarms": len(summary.alarms)})
        if summary.verdict:
            run.summary["toposcope/verdict"] = summary.verdict
        for alarm in summary.alarms:
            run.summary["toposcope/alarm"] = f"step {summary.step:,}: {alarm}"
            run.alert(title=f"toposcope: {summary.run}", text=f"step {summary.step:,}: {alarm}")
