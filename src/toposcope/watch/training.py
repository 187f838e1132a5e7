"""Watch our own training from inside: one `Monitor` for each run, one store for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.sources.layout import RunFolder, read_run
from toposcope.watch.inside import Monitor
from toposcope.watch.journal import Event, Journal

if TYPE_CHECKING:
    from toposcope.training.loop import TrainingStep

_METRICS = ("loss", "heldout_loss", "learning_rate", "grad_norm", "weight_norm")


class TrainingWatch:
    """A callback for `toposcope.train(on_step=...)`: passes every step to the monitor of its run.

    Weights are measured at the steps at which the recipe keeps checkpoints.
    """

    def __init__(self, out: str | Path) -> None:
        self._out = Path(out)
        self._monitor: Monitor | None = None
        self._began = Journal.of(self._out).read()

    def __call__(self, event: TrainingStep) -> None:
        """Observe one step."""
        monitor = self._of(event)
        logged = {name: getattr(event, name) for name in _METRICS}
        metrics = {name: value for name, value in logged.items() if value is not None}
        monitor.observe(event.model, event.step, tokens=event.tokens, **metrics)

    def __enter__(self) -> TrainingWatch:
        """Return the watch."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finish measuring the copies, and end."""
        if self._monitor is not None:
            self._monitor.close()

    def alarms(self) -> list[Event]:
        """Return the alarms since the start."""
        since = self._began[-1].number if self._began else 0
        return [event for event in Journal.of(self._out).read(since) if event.kind == "alarm"]

    def _of(self, event: TrainingStep) -> Monitor:
        if self._monitor is not None and self._monitor.run.run == event.run:
            return self._monitor
        if self._monitor is not None:
            self._monitor.close()
        run = read_run(RunFolder(event.folder))
        every = run.config.get("checkpoint_every")
        self._monitor = Monitor(self._out, run=run, every=every if isinstance(every, int) else 100)
        return self._monitor
