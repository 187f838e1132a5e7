"""Renders the page as HTML: the first paint, and the parts that are repainted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined

from toposcope.core.forms import and_more, capital, listed, number
from toposcope.core.legible import shown
from toposcope.core.wording import recommended
from toposcope.page import appendix
from toposcope.study.findings.summary import KINDS, WORDS, FirstScreen
from toposcope.watch.first_line import FirstLine, Lead, RunVerdict, events_of
from toposcope.watch.journal import Event
from toposcope.watch.loss_health import parted
from toposcope.watch.page import _picture as picture
from toposcope.watch.page import panels
from toposcope.watch.page.doing import Work, outdated, so_far, unseen, why_no_forecast
from toposcope.watch.page.live import Live
from toposcope.watch.resumes import lines_of_answers

FRAGMENTS = ("answer", "alarms", "forecasts", "findings", "audit")
"""Parts of the page that are repainted when there is news."""

_ALARMS = 50
"""The largest number of alarms that the page lists."""
_ALL_WELL = (("trained", "healthy"), ("sound", "clean"), ("odd", "alike"), ("on", "finished"))
"""Questions and strengths whose answer is that all is well."""
_NAMED = 3
"""Runs that the title names; the others are counted."""
_FIRST = 300
"""The largest number of points of a trace in the first paint."""

Answer = Mapping[str, Any] | None


def page(live: Live, answer: Answer, answered: int = 0, work: Work | None = None) -> str:
    """Return the whole page; `answered` counts the answers so far, `work` says when the next comes."""
    shown = panels.curves(live, panels.LOSS, most=_FIRST)
    odd = [odd_run["run"] for odd_run in (answer or {}).get("odd", ())]
    drawing = picture.lines(shown or {"title": "loss", "traces": []}, odd)
    context = _context(live, answer, work or Work())
    return _environment().get_template("page/page.html").render(**context, drawing=drawing, answered=answered)


def fragment(name: str, live: Live, answer: Answer, work: Work | None = None) -> str:
    """Return one part of the page, of `FRAGMENTS`."""
    return _environment().get_template(f"page/{name}.html").render(**_context(live, answer, work or Work()))


def _context(live: Live, answer: Answer, work: Work) -> dict[str, Any]:
    answer = answer or {}
    with live.lock:
        passed = {(run, test, step): at for run, test, step, at in answer.get("passed", ())}
        standing, back = parted(live.raised(), passed)
        counts = {
            "runs": len(live.groups()), "checkpoints": _checkpoints(live),
            "alarms": len(standing), "events": len(events_of(standing)),
        }  # fmt: skip
        forecasts = [_forecast(live, forecast) for forecast in answer.get("forecasts", ())]
        first = _first(live, standing, answer, counts)
        # the answer is from before the latest audit: what it says of these files is no longer so
        outrun = bool(set(live.faults) - set(answer.get("audit", ())))
        return {
            "title": _title(live), "live": live,
            "next_alarm": first.next if first.lead is Lead.ALARM else "",
            "counts": counts, "acts": first.acts, "outrun": outrun,
            "alarms": live.alarms(standing, back)[:_ALARMS],
            "health": list(answer.get("health", ())), "odd": list(answer.get("odd", ())),
            "headline": _headline(live, first, answer, counts),
            "doing": _doing(live, answer, work, counts),
            "findings": [_findings(part, bool(standing) or outrun) for part in answer.get("parts", ())],
            "no_forecast": why_no_forecast(live, answer, work), "answer": answer, "forecasts": forecasts,
            "audit": appendix.findings(live.audit), "version": live.version, "gone": _gone(live),
            "notices": _notices(live), "audited": live.audited, "audit_command": _audit_command(live),
            "resume": lines_of_answers(live.resume),
        }  # fmt: skip


def _first(
    live: Live, standing: Sequence[Event], answer: Mapping[str, Any], counts: Mapping[str, int]
) -> FirstLine:
    """Return what the first line is about, by the rule of `toposcope watch`, with what is known now."""
    verdicts = [RunVerdict(*verdict) for verdict in answer.get("verdicts", ())]
    not_seen = [unseen(live)] if live.unseen else []
    problems = [*answer.get("problems_of_runs", ()), *not_seen, *live.faults]
    return FirstLine.of(
        standing, problems, verdicts, checked=bool(counts["checkpoints"] or live.traces.by_measure)
    )


def _headline(live: Live, first: FirstLine, answer: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return the first line in words.

    If there is nothing to act on, it is a problem with the store, else the lead of the findings. Before there
    are findings it says what was checked, which needs no computation.
    """
    if first.acts:
        step = "" if first.step is None else f", step {first.step:,}"
        where = f"Alarm in {first.run}{step}: " if first.lead is Lead.ALARM else ""
        return where + first.said + and_more(first.count - 1, "more below", form=" ({})")
    if live.trouble:
        return f"The store cannot be read: {live.trouble}"
    if not live.ready:
        return "The store is being read."
    if answer.get("apart"):
        return str(answer["apart"])
    if answer.get("parts"):
        title = str(answer["parts"][0]["screen"]["title"])
        some = _of_checkpoints(answer, counts["checkpoints"])
        return f"{title.removesuffix('.')}{some}." if some else title
    return so_far(counts["checkpoints"], counts["runs"], live)


def _of_checkpoints(answer: Mapping[str, Any], there: int) -> str:
    """Return of which checkpoints a headline speaks, if more are there by now; else nothing."""
    seen = answer.get("seen")
    return f" (the first {seen:,} of {there:,} checkpoints)" if seen is not None and seen < there else ""


def _title(live: Live) -> str:
    """Return what is watched: the runs by name; the store's folder until one is known."""
    names = list(live.groups())
    return listed(names, most=_NAMED, what="more runs") if names else live.path.resolve().name


def _findings(part: Mapping[str, Any], alarmed: bool) -> dict[str, Any]:
    """Return the answers of a part: question, what to act on, and the numbers behind it.

    What the first screen says is left out; beside an alarm also each answer that all is well, which is about
    the logs or the files and not about the event.
    """
    kinds = [tuple(kind) for kind in part.get("kinds", ())] or [("", "")] * len(part["acts"])
    answered = zip(part["answers"], part["acts"], kinds, strict=True)
    rows = [
        (question, act, words.removeprefix(act).strip())
        for (question, words), act, kind in answered
        if not (alarmed and kind in _ALL_WELL)
    ]
    first = (part["said"]["act"], part["screen"]["title"])
    return {"subject": part["subject"], "answers": [row for row in rows if row[2] or row[1] not in first]}


def _doing(live: Live, answer: Mapping[str, Any], work: Work, counts: Mapping[str, int]) -> str:
    """Return what runs behind the page, and which checkpoints the shown findings are based on."""
    if not live.ready or not counts["runs"]:
        return ""
    behind = outdated(answer, counts["checkpoints"])
    if answer.get("parts"):
        since = counts["checkpoints"] - answer["seen"] if behind else 0
        more = f"; {since:,} more since then" if since else ""
        of = f"The findings cover {answer['seen']:,} checkpoints{more}. " if "seen" in answer else ""
        return of + (work.sentence() if since or work.began is not None else "")
    trouble = () if behind else answer.get("trouble") or ()
    return " ".join([*(f"Last answer: {trouble_text}." for trouble_text in trouble), work.sentence()])


def _forecast(live: Live, forecast: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a forecast's line: the loss with its interval, and the time left."""
    left = None if forecast["endless"] else panels.time_left(live, forecast["run"], forecast["horizon"])
    coverage = (
        "none" if not forecast["bounded"] or forecast["coverage"].startswith("not") else forecast["coverage"]
    )
    final = "none"
    if forecast["not_yet"]:
        final = "cannot be forecast yet"
    elif forecast["final"] is not None:
        final = number(forecast["final"], "{:.3f}")
        if forecast["bounded"]:
            final += f" [{number(forecast['low'], '{:.3f}')}, {number(forecast['high'], '{:.3f}')}]"
    return {
        "run": forecast["run"], "final": final, "level": coverage, "status": forecast["status"],
        "reason": forecast["reason"], "end": "unknown" if forecast["endless"] else f"{forecast['horizon']:,}",
        "left": "" if left is None else f"{duration(left[0])} ({duration(left[1])} to {duration(left[2])})",
    }  # fmt: skip


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(45), duration(5400), duration(200_000)
    ('45 s', '1.5 h', '2.3 d')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _audit_command(live: Live) -> str:
    """Return the command that reads every value of what the page shows."""
    uris = list(live.runs["uri"].dropna().unique()) if "uri" in live.runs else []
    places = [live.folder] if live.folder else [str(uri) for uri in uris if uri][:3]
    return recommended("audit", *(places or ["FOLDER"]))


def _checkpoints(live: Live) -> int:
    """Return how many checkpoints were measured: the steps of each run's fullest trace, summed."""
    most: dict[str, int] = {}
    for key, runs in live.traces.by_measure.items():
        if not key.startswith("metrics/"):
            for run, trace in runs.items():
                most[run] = max(most.get(run, 0), trace.seen)
    return sum(most.values())


def _gone(live: Live) -> list[tuple[str, str, str]]:
    """Return the latest checkpoints that were lost or left out, and why."""
    not_seen = [("not checked", place, why) for place, why in live.unseen.items()]
    return not_seen + [(event.kind, event.place, str(event.data.get("why", ""))) for event in live.lost]


def _notices(live: Live) -> list[tuple[str, str]]:
    """Return the notices: bends, plateaus, a target in reach; the latest first."""
    listed = [
        event for event in live.events
        if event.kind == "notice" and event.data.get("sentence") and not event.data.get("culprits")
    ]  # fmt: skip
    return [
        (
            event.run + (f", step {event.step:,}" if (event.step or -1) >= 0 else ""),
            str(event.data["sentence"]),
        )
        for event in listed[:-21:-1]
    ]


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _heading(subject: str) -> str:
    """Return the subject of a part as a heading; a group, which the user named, stays as written."""
    return subject if ": " in subject else capital(subject)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PrefixLoader({"page": PackageLoader("toposcope.watch.page")}),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clock": _clock,
        "kind": KINDS.__getitem__,
        "word": WORDS.__getitem__,
        "heading": _heading,
    }
    environment.filters["to_do"] = lambda text: FirstScreen("", (), text).to_do
    return environment
