"""The answer about a store, computed in a separate process: findings, forecasts and problems, as JSON.

    python -m toposcope.watch.page.answers STORE [PUBLISHED [NICE [TYPED]]]

PUBLISHED is MODULE:NAME of the `PublishedRules` to show beside the rest. With TYPED ("typed"), options are
spelt as on the command line, else as in Python.

It prints three lines: the health of the losses with the odd runs, then the findings, then the forecasts. The
page never waits for it. It runs on one thread. All answers but the first run at the lowest priority; at that
priority, the first would never come on a busy machine.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import typed_options
from toposcope.rules.replaying import Replays
from toposcope.runs.judging import judged
from toposcope.store import Store
from toposcope.watch.alarms.base import AlarmSettings
from toposcope.watch.first_line import run_problems, verdicts_of
from toposcope.watch.journal import Journal
from toposcope.watch.judged import judged_runs
from toposcope.watch.loss_health import alarm_key, health_of, logs_of, with_passed
from toposcope.watch.replay import replays_of

if TYPE_CHECKING:
    from toposcope.runs.log_results import LogResults
    from toposcope.study.published import PublishedRules


def forecasts(store: Path, results: LogResults | None = None) -> list[dict[str, Any]]:
    """Return the forecast of every unfinished run, with its cone if the method has one."""
    from toposcope.runs.log_results import LogResults
    from toposcope.runs.reading import Reading, read_curves
    from toposcope.study.forecasts.gather import with_features

    results = results or LogResults()
    curves, _, _ = read_curves([str(store)], Reading(results=results, features=with_features))
    entries = []
    for curve, end in results.forecasts(curves):
        ahead = slice(None if end.bounded else 0)
        entries.append(
            {
                "run": end.run, "status": end.status, "reason": end.reason, "method": end.method,
                "final": _number(end.final), "low": _number(end.low), "high": _number(end.high),
                "level": end.level, "coverage": end.coverage, "share": _number(end.share),
                "horizon": int(curve.horizon),
                "bounded": end.bounded, "not_yet": end.not_yet, "endless": curve.endless,
                "step": _listed(end.step[ahead]), "loss": _listed(end.loss[ahead]),
                "curve_low": _listed(end.curve_low[ahead]), "curve_high": _listed(end.curve_high[ahead]),
            }
        )  # fmt: skip
    return entries


def answers(
    store: Path, published: PublishedRules, results: LogResults | None = None, replays: Replays | None = None
) -> dict[str, Any]:
    """Return the headline, the answer to each question and the problems, in the words of the report."""
    from toposcope.study.analysis import analysis_of
    from toposcope.study.findings import words

    judge = partial(judged, replays=replays or replays_of(store))
    analysis = analysis_of(store, published=published, judge=judge, from_logs=results)
    parts = []
    for findings in analysis.all_findings:
        lead = findings.said(findings.lead)
        parts.append(
            {
                "subject": words.of_group(findings.group, findings.subject),
                "said": {"act": lead.act, "ground": lead.ground, "limits": lead.limits, "next": lead.next},
                "answers": findings.paragraphs,
                "acts": [sentence.act for finding in findings if (sentence := findings.said(finding)).text],
                "kinds": [
                    [finding.question, finding.strength]
                    for finding in findings
                    if findings.said(finding).text
                ],
                "screen": findings.first.as_data(),
            }
        )
    return {"apart": analysis.apart, "parts": parts, "problems": [*analysis.problems, *analysis.notes]}


def losses(store: Store, results: LogResults | None = None, replays: Replays | None = None) -> dict[str, Any]:
    """Return what is wrong with the losses, which runs are odd, and which alarms have passed, and where.

    `problems`, `audit` and `verdicts` are those of the first line. All come from the functions that
    `toposcope watch` uses.
    """
    from toposcope.study.odd_measured import odd_of_store

    journal = Journal.of(store.path).read()
    logs = list(logs_of(store, results))
    alarms = [event for event in journal if event.kind == "alarm"]
    replays = replays or Replays(AlarmSettings.of(journal).target is not None)
    _, back = with_passed(alarms, logs, journal)
    health, odd, audit = health_of(logs), odd_of_store(store).found, store.audited()
    return {
        "health": [
            {"run": state.run, "said": state.remark.named, "broken": state.broken} for state in health
        ],
        "passed": [[*alarm_key(event), event.data["passed"]] for event in back],
        "odd": [{"run": run.run, "said": run.sentence} for run in odd],
        "problems_of_runs": run_problems(health, odd),
        "audit": [str(finding) for finding in audit if not finding.is_remark],
        "verdicts": verdicts_of(judged_runs(store, logs, replays, audit)),
    }


def named_rules(name: str) -> PublishedRules:
    """Return the rules named MODULE:NAME; for "", those without any paper.

    >>> named_rules("").phases is named_rules("toposcope.study.published:NOTHING").phases
    True
    """
    from toposcope.study.published import NOTHING

    rules: PublishedRules = pkgutil.resolve_name(name) if name else NOTHING
    return rules


def stages(store: Path, published: PublishedRules) -> Iterator[dict[str, Any]]:
    """Yield the health, the findings, then the forecasts; `trouble` lists what could not be computed.

    `seen` is the number of checkpoints the answer is based on; with it, the page detects an outdated answer.
    """
    from toposcope.runs.log_results import LogResults

    results, replays = LogResults(), replays_of(store)  # all stages share the same logs
    yield losses(Store.open(store), results, replays)
    seen = sum(map(len, Store.open(store).measured_steps().values()))
    state: dict[str, Any] = {"seen": seen, "trouble": []}
    if seen:
        try:
            state |= answers(store, published, results, replays)
        except InputError as error:
            state["trouble"].append(f"no findings yet: {error}")
    yield state
    try:
        state["forecasts"] = forecasts(store, results)
    except InputError as error:
        state["forecasts"] = []
        if seen:
            state["trouble"].append(f"no forecast: {error}")
    yield state


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _listed(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in np.asarray(values, dtype=float).tolist()]


if __name__ == "__main__":
    os.nice(int("".join(sys.argv[3:4]) or 19))
    with typed_options(sys.argv[4:5] == ["typed"]):
        for stage in stages(Path(sys.argv[1]), named_rules("".join(sys.argv[2:3]))):
            print(json.dumps(stage), flush=True)
