"""Summaries as trackio runs, which stay on this machine."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from toposcope.core.errors import MissingExtraError
from toposcope.watch.sinks.base import Summary


class TrackioSink:
    """Logs to one trackio run of `project` per run; each summary is finished, so that a kill loses none."""

    kind = "trackio"

    def __init__(self, project: str) -> None:
        try:
            import trackio as _  # noqa: F401
        except ImportError:
            raise MissingExtraError("trackio", "trackio") from None
        self._project = project

    def send(self, summary: Summary) -> None:
        """Log one summary, and its alarms as alerts."""
        with redirect_stdout(sys.stderr):  # trackio prints progress, which must not mix with `--json`
            self._log(summary)

    def _log(self, summary: Summary) -> None:
        import trackio

        run = trackio.init(project=self._project, name=summary.run, resume="allow", embed=False)
        try:
            verdict = {"toposcope/verdict": summary.verdict} if summary.verdict else {}
            run.log({**summary.values, **verdict}, step=summary.step)
            for alarm in summary.alarms:
                trackio.alert(title=f"toposcope: {summary.run}", text=f"step {summary.step:,}: {alarm}")
        finally:
            trackio.finish()
