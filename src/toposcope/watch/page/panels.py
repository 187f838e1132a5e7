"""The contents of each panel of the page as plain data; `newer` returns what came since a version."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from toposcope.core.tabular import guarded
from toposcope.core.types import Kind
from toposcope.core.wording import option
from toposcope.study.catalogue import SPELT
from toposcope.watch.page.decimate import MOST, decimate
from toposcope.watch.page.live import Live, plain, points_of
from toposcope.watch.page.traces import LiveTrace, Measure, Traces

LOSS = Measure("metrics", "", "model", "", "loss").key
COLUMNS = 300
"""The largest number of columns of a heat map; if there are more steps, columns hold means."""

_LOGGED = {
    "loss": ("training loss", ""),  # a log does not say whether the loss is in nats or a squared error
    "heldout_loss": ("held-out loss", ""),
    "grad_norm": ("gradient norm", ""),
    "learning_rate": ("learning rate", ""),
    "weight_norm": ("weight norm", ""),
    "seconds": ("seconds", "s"),
}


def index(live: Live) -> dict[str, Any]:
    """Return what can be opened: runs with their groups, measures of whole runs, heat maps.

    `no_diagram` is what the page says of a run without a stored diagram.
    """
    with live.lock:
        lines = {key for line in live.traces.lines.values() for key in line}
        whole = [m for key, m in live.traces.measures.items() if key not in lines]
        maps = {key: live.traces.measures[next(iter(line))] for key, line in live.traces.lines.items()}
        runs = [{"run": run, "group": i, "label": label} for run, (i, label) in live.groups().items()]
    shown = [_listed(live, measure) for measure in whole]
    shown = [entry for entry in shown if entry["kind"] not in (Kind.NULL, Kind.NOISE)]
    return {
        "runs": runs,
        "measures": sorted(shown, key=lambda entry: (not entry["primary"], entry["title"])),
        "maps": sorted(
            (
                {"key": key, **_named(live, measure), "where": _where(measure)}
                for key, measure in maps.items()
            ),
            key=lambda entry: (not entry["primary"], entry["title"]),
        ),
        "no_diagram": f"No diagram of this run was stored; measure with {option('diagrams')} to store them.",
    }


def curves(
    live: Live,
    key: str,
    *,
    start: float = -math.inf,
    end: float = math.inf,
    log: bool = False,
    most: int = MOST,
) -> dict[str, Any] | None:
    """Return a measure in every run, with its null models; None if it was not measured.

    Only steps in [start, end] count; at most `most` points per trace, spread over log step with `log`.
    """
    with live.lock:
        measure = live.traces.measures.get(key)
        if measure is None:
            return None
        groups = _tinted(live.groups())
        traces = []
        for run, kind, trace in _traces(live, key):
            step = trace.step
            inside = np.flatnonzero((step >= start) & (step <= end))
            chosen = inside[decimate(step[inside], trace.value[inside], most=most, log=log)]
            traces.append(
                {"id": trace.id, "run": run, "kind": kind, "group": groups[run][0], "label": groups[run][1]}
                | points_of(trace, chosen, banded=kind == "null" or _spread(trace))
            )
        answer = {"key": key, "version": live.version, **_titled(live, measure), "traces": traces}
        return answer | {"alarms": _alarms(live, start, end)}


def _tinted(groups: dict[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    """Return the groups of the runs as colours; if all have the same size, each run has its own colour.

    >>> _tinted({"s1": (0, "small"), "s2": (0, "small")})
    {'s1': (0, 'small'), 's2': (1, 'small')}
    """
    if len({number for number, _ in groups.values()}) > 1:
        return groups
    return {run: (i, label) for i, (run, (_, label)) in enumerate(groups.items())}


def _alarms(live: Live, start: float, end: float) -> list[dict[str, Any]]:
    """Return the alarms to mark on curves: run, step and test, each test of a run at its first step."""
    first: dict[tuple[str, str], int] = {}
    for alarm in live.alarms():
        if alarm.step is not None and start <= alarm.step <= end:
            first[alarm.run, alarm.test] = min(alarm.step, first.get((alarm.run, alarm.test), alarm.step))
    return [{"run": run, "test": test, "step": step} for (run, test), step in sorted(first.items())]


def heat(live: Live, run: str, key: str) -> dict[str, Any] | None:
    """Return a measure of every matrix, head or layer of one run by step; None if there is none."""
    with live.lock:
        lines = [
            (name, layer, role, trace)
            for name, layer, role in live.traces.of_map(key)
            if (trace := live.traces.by_measure[name].get(run)) is not None
        ]
        if not lines:
            return None
        steps = np.unique(np.concatenate([trace.step for *_, trace in lines]))
        edges = steps[np.unique(np.linspace(0, len(steps), min(COLUMNS, len(steps)) + 1).astype(int)[:-1])]
        values = [plain(_means(trace, edges)) for *_, trace in lines]
        first = live.traces.measures[lines[0][0]]
        named = [
            {"key": name, "id": trace.id, "layer": layer, "role": role, "name": _name(live, name)}
            for name, layer, role, trace in lines
        ]
        return {
            "key": key, "run": run, "version": live.version, **_named(live, first),
            "steps": edges.tolist(), "lines": named, "values": values,
        }  # fmt: skip


def newer(live: Live, panels: Iterable[str], since: int) -> dict[str, Any]:
    """Return the points of the open panels that came after version `since`, by trace.

    A panel is "c:" and a measure, or "h:" and a heat map and, after "|", a run. A panel with too many new
    points to send is named under "stale": the browser fetches it again.
    """
    with live.lock:
        points: dict[str, Any] = {"version": live.version, "traces": {}, "stale": []}
        for panel in panels:
            new_points = [(trace, kind, trace.newer(since)) for kind, trace in _of_panel(live, panel)]
            if any(len(chosen) > MOST for *_, chosen in new_points):
                points["stale"].append(panel)
                continue
            points["traces"] |= {
                str(trace.id): points_of(trace, chosen, banded=kind == "null" or _spread(trace))
                for trace, kind, chosen in new_points
                if len(chosen)
            }
        return points


def table(live: Live, key: str) -> Iterator[str]:
    """Yield every point of a measure, in every run, as lines of CSV."""
    yield "run,kind,step,value,low,high\n"
    with live.lock:
        traces = live.traces
        if any(trace.thinned for *_, trace in _traces(live, key)):
            traces = _read_again(live, key)
        trace_arrays = [
            (run, kind, trace.step, trace.value, trace.low, trace.high)
            for run, kind, trace in _traces(live, key, traces)
        ]
    for run, kind, *columns in trace_arrays:
        name = cell(run)
        for step, value, low, high in zip(*(column.tolist() for column in columns), strict=True):
            yield f"{name},{kind},{step},{value!r},{low!r},{high!r}\n"


def cell(text: str) -> str:
    """Return text as a CSV cell that no spreadsheet runs as a formula.

    >>> cell('=1+1'), cell('a "b", c')
    ("'=1+1", '"a ""b"", c"')
    """
    text = guarded(text)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text


def pace(steps: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the recent seconds per step: median, 10th and 90th percentile over stretches of the last half.

    `seconds` is the duration of each step or, if it never falls, the time since the start. Returns None for
    fewer than eight points.

    >>> pace(range(0, 100, 10), [5.0 * i for i in range(10)])
    (0.5, 0.5, 0.5)
    """
    at, took = np.asarray(steps, float), np.asarray(seconds, float)
    good = np.isfinite(took)
    at, took = at[good], took[good]
    if len(at) < 8:
        return None
    each = took[1:]
    if np.all(np.diff(took) >= 0) and took[-1] > took[0]:
        each = np.diff(took) / np.diff(at)
    late = each[len(each) // 2 :]
    stretches = [part.mean() for part in np.array_split(late, min(20, len(late)))]
    low, middle, high = np.quantile(stretches, (0.1, 0.5, 0.9))
    return float(middle), float(low), float(high)


def time_left(live: Live, run: str, horizon: int) -> tuple[float, float, float] | None:
    """Return the seconds to step `horizon` at the recent pace: median, 10th and 90th percentile."""
    trace = live.logged("seconds").get(run)
    if trace is None or not len(trace):
        return None
    steps = trace.step
    rate = pace(steps.tolist(), trace.value.tolist())
    left = max(horizon - int(steps[-1]), 0)
    return None if rate is None else (rate[0] * left, rate[1] * left, rate[2] * left)


def _read_again(live: Live, key: str) -> Traces:
    """Return every point of a measure and its null models, from the store."""
    traces, store, measure = Traces(bounded=False), live.live.store, live.traces.measures[key]
    if measure.probe == "metrics":
        traces.take_metrics(store.metrics(), live.version)
    else:
        names = [measure.feature, *(live.traces.measures[null].feature for null in _nulls(live, measure))]
        traces.take_features(store.features(measure.probe, names), live.version)
    return traces


def _traces(live: Live, key: str, held: Traces | None = None) -> list[tuple[str, str, LiveTrace]]:
    """Return run, kind and trace of a measure and of what is drawn with it, as the page holds them."""
    wanted = [(key, "value")]
    if key == LOSS:
        wanted.append((key.removesuffix("loss") + "heldout_loss", "held-out"))
    elif (measure := live.traces.measures.get(key)) is not None:
        wanted += [(null, "null") for null in _nulls(live, measure)]
    return [
        (run, kind, trace)
        for name, kind in wanted
        for run, trace in sorted((held or live.traces).by_measure.get(name, {}).items())
    ]


def _of_panel(live: Live, panel: str) -> list[tuple[str, LiveTrace]]:
    kind, _, rest = panel.partition(":")
    if kind == "c":
        return [(kind, trace) for _, kind, trace in _traces(live, rest)]
    key, _, run = rest.partition("|")
    of = live.traces.by_measure
    return [("value", of[name][run]) for name, *_ in live.traces.of_map(key) if run in of[name]]


def _nulls(live: Live, measure: Measure) -> list[str]:
    catalogue = live.catalogue
    if not len(catalogue):
        return []
    mine = catalogue[(catalogue["probe"] == measure.probe) & (catalogue["null_of"] == measure.feature)]
    keys = [
        Measure(
            measure.probe, measure.filtration, measure.scope, measure.name, str(feature), measure.head
        ).key
        for feature in mine["feature"]
    ]
    return [key for key in keys if key in live.traces.measures]


def _spread(trace: LiveTrace) -> bool:
    return bool(np.any(trace.high > trace.low))


def _means(trace: LiveTrace, edges: np.ndarray) -> np.ndarray:
    step, value = trace.step, trace.value
    good = np.isfinite(value)
    at = np.searchsorted(edges, step[good], side="right") - 1
    n = np.bincount(at, minlength=len(edges))
    with np.errstate(invalid="ignore"):
        return np.bincount(at, weights=value[good], minlength=len(edges)) / n


def _where(measure: Measure) -> str:
    filtration = SPELT.get(measure.filtration, measure.filtration)
    return ", ".join(part for part in (f"every {measure.scope}", filtration) if part)


def _listed(live: Live, measure: Measure) -> dict[str, Any]:
    return {"key": measure.key, "scope": measure.scope, **_titled(live, measure)}


def _titled(live: Live, measure: Measure) -> dict[str, Any]:
    named = _named(live, measure)
    where = measure.name if measure.name not in ("", "model") else ""
    filtration = SPELT.get(measure.filtration, measure.filtration)
    more = ", ".join(part for part in (where, filtration) if part)
    return named | {"title": f"{named['title']} ({more})" if more else named["title"]}


def _named(live: Live, measure: Measure) -> dict[str, Any]:
    if measure.probe == "metrics":
        title, unit = _LOGGED[measure.feature]
        return {"title": title, "unit": unit, "kind": "logged", "primary": True}
    catalogue = live.catalogue
    if len(catalogue):
        mine = catalogue[(catalogue["probe"] == measure.probe) & (catalogue["feature"] == measure.feature)]
        if len(mine):
            feature_line = mine.iloc[0]
            title = str(feature_line["label"] or measure.feature)
            return {
                "title": title, "unit": str(feature_line["unit"] or ""), "kind": str(feature_line["kind"]),
                "primary": bool(feature_line["primary"]),
            }  # fmt: skip
    return {"title": measure.feature.replace("_", " "), "unit": "", "kind": "topology", "primary": False}


def _name(live: Live, key: str) -> str:
    measure = live.traces.measures[key]
    return measure.name if measure.head < 0 else f"{measure.name} head {measure.head}"
