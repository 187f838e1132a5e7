"""What is watched of one run: its loss, its gradients, its matrices and heads, one value after the other."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.types import Normalization, Scope, Status
from toposcope.forecasting.health.assess import trained
from toposcope.sources.content import NOT_FINITE
from toposcope.statistics.alarms.drift import Drift
from toposcope.statistics.alarms.panel import Judged, Panel
from toposcope.statistics.alarms.residuals import OneStepAhead
from toposcope.statistics.alarms.spending import AlarmFamily, level
from toposcope.subjects.weights import features as of
from toposcope.watch.content import Content, Fault
from toposcope.watch.slow import Slow, SlowWatch

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.statistics.phases.online import OnlineDetector

RATE = 0.05
"""Share of healthy runs that may raise an alarm, over all tests and series of a run together."""

TESTS = {
    "loss spike": 1.0,
    "loss drift": 1.0,
    "gradient spike": 1.0,
    "update norm": 1.0,
    "matrix or head": 2.0,
    "phase boundary": 1.0,
    "sibling band": 1.0,
}
"""The tests of a run and their shares of its false-alarm rate."""

_PANEL = (
    of.UPDATE_RELATIVE.name, *(f"{of.UPDATE_RELATIVE.name}_{part}" for part in "qkvo"),
    of.UPDATE_ROW_MAX.name, of.UPDATE_ENTROPY.name, of.QK_NORM.name, of.OV_NORM.name,
)  # fmt: skip
_OWN = (Scope.MATRIX, Scope.HEAD)
"""What has a name of its own in the model."""
_ENTROPIES = (of.UPDATE_ENTROPY.name,)
_REST, _DRIFT_REST = 20, 8
"""Looks for which a test that has alarmed rests; those of the drift are blocks of losses."""

NOISE = 0.05
"""Where the largest move has a larger p-value, corrected for their number, none stands above its noise."""

NAMED = 2.0
"""Moves below so many of their own standard deviations are no culprits beside another."""

LOSS_FLOOR, GRADIENT_FLOOR = 0.02, 0.2
"""Scales of the logarithms, at least: jumps of a steady series by a few of these are no alarm."""

LOSS_DEGREES = 6.0
"""The loss's tail is at most as heavy as Student's t with so many degrees; see docs/watch.md."""

LOST, LOGGED = 2, 3
"""Logged losses in a row that are not finite and make an alarm, after so many in a row that were."""

BACK = 2.0
"""Standard deviations of one value above what was expected, within which a level counts as back there."""

Key = tuple[str, int, str]
"""Name of the matrix, head (-1: none), feature."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to tell: an alarm of a named test, or a notice without an error rate."""

    kind: str
    test: str
    run: str
    step: int
    sentence: str
    data: Mapping[str, Any] = field(default_factory=dict)


def back_below(spike: Alert) -> float:
    """Return the level below which a series counts as back where it had been expected before a spike."""
    there, expected, size = (float(spike.data[name]) for name in ("value", "expected", "sizes"))
    return expected * math.exp(BACK * math.log(there / expected) / size)


@dataclass(slots=True)
class PanelLook:
    """The panel's judgement at one checkpoint: what a culprit table is made of."""

    step: int
    judged: Judged[Key] | None
    broken: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    slow: tuple[Slow, ...] = ()


class RunWatch:
    """Watches one run; give it metrics and checkpoints in the order of their steps."""

    def __init__(
        self,
        run: str,
        family: AlarmFamily,
        *,
        planned: np.ndarray | None = None,
        led: Sequence[Mapping[Hashable, Any]] = (),
    ) -> None:
        self.run = run
        self._led = led
        self._family = family
        self._loss = OneStepAhead(floor=LOSS_FLOOR, least_degrees=LOSS_DEGREES)
        self._gradient = OneStepAhead(floor=GRADIENT_FLOOR)
        self._held: Alert | None = None
        self._since: list[float] = []
        self._drift = Drift(family.rate_of("loss drift"))
        self._planned = planned
        self._phase: OnlineDetector | None = None
        self._panel: Panel[Key] = Panel()
        self._update: Panel[str] = Panel()
        self._content = Content()
        self._slow = SlowWatch()
        self._looks: dict[str, int] = {}
        self._quiet_until: dict[str, int] = {}
        self._metric_step = self._checkpoint_step = -1
        self._finite = self._lost = 0
        self._broken: set[str] = set()
        self._rates: deque[tuple[int, float]] = deque()
        self._rate = 0.0
        """The mean rate of the latest update whose rates are known."""
        self.looks: deque[PanelLook] = deque(maxlen=64)
        """The latest checkpoints, for culprits."""

    def metrics(self, table: pd.DataFrame) -> list[Alert]:
        """Take new rows of the loss history."""
        found: list[Alert] = []
        columns = table[["step", "loss", "grad_norm", "learning_rate"]].itertuples(index=False)
        for (step, loss, gradient, rate), training in zip(columns, trained(table), strict=True):
            if step <= self._metric_step:
                continue
            self._metric_step = int(step)
            if training:
                found += self._losing(int(step), loss)
            if math.isfinite(rate):
                self._rates.append((int(step), float(rate)))
            found += self._spike("loss spike", self._loss, int(step), loss, "loss")
            found += self._gradients(int(step), gradient)
            found += self._drifts(int(step), loss)
        return found

    def checkpoint(self, step: int, rows: pd.DataFrame) -> list[Alert]:
        """Take the features of one checkpoint."""
        if step <= self._checkpoint_step:
            return []
        since, self._checkpoint_step = self._checkpoint_step, step
        broken = sorted(set(rows.loc[(rows["status"] == Status.FAILED) & rows["scope"].isin(_OWN), "name"]))
        faults = tuple(self._content.update(rows))
        found = self._not_finite(step, broken) + self._spoilt(step, faults)
        found += self._whole(step, since, rows) + self._persistence(step, rows)
        self._rate_between(since, step)
        slow = tuple(self._slow.update(step, since, self._rate, rows))
        found += self._slowly(step, slow)
        while self._rates and self._rates[0][0] < step:
            self._rates.popleft()  # they made this update; the next one begins here
        judged = self._panel.update(_panel_values(rows))
        self.looks.append(PanelLook(step, judged, tuple(broken), faults, slow))
        if judged is not None and judged.p <= self._level("matrix or head"):
            first = judged.moves[0]
            found += self._tell(
                "matrix or head", step,
                f"{_who(first.key)} moved by {abs(first.size):.0f} standard deviations", p=judged.p,
            )  # fmt: skip
        return found

    def _level(self, test: str) -> float:
        self._looks[test] = self._looks.get(test, 0) + 1
        return level(self._family.rate_of(test), self._looks[test])

    def _tell(self, test: str, step: int, sentence: str, **data: Any) -> list[Alert]:
        """Report an alarm, and none of the same test for the next 20 points: one fault is one alarm."""
        if self._looks.get(test, 0) < self._quiet_until.get(test, 0):
            return []
        self._quiet_until[test] = self._looks.get(test, 0) + (_DRIFT_REST if test == "loss drift" else _REST)
        return [Alert("alarm", test, self.run, step, sentence, data)]

    def _spike(self, test: str, series: OneStepAhead, step: int, value: float, what: str) -> list[Alert]:
        if value is None or math.isnan(value):
            return []
        if not math.isfinite(value):
            return self._tell(test, step, f"{what} is not finite")
        residual = series.update(math.log(max(value, 1e-30)))
        if residual is None or residual.p > self._level(test):
            return []
        series.forget()
        expected = math.exp(residual.predicted)
        sentence = f"{what} is {value:.4g} where {expected:.4g} was expected"
        return self._tell(
            test, step, sentence, p=residual.p, sizes=residual.size, expected=expected, value=float(value)
        )

    def _gradients(self, step: int, norm: float) -> list[Alert]:
        """Hold a spike back for three gradients: an alarm if their level is high, noticed if it is not.

        One odd batch has one odd gradient, and training goes on as if nothing had been.
        """
        if norm is None or math.isnan(norm):
            return []
        found = []
        if self._held is not None:
            self._since.append(norm)
            if len(self._since) == LOGGED:
                spike, back = self._held, float(np.median(self._since)) <= back_below(self._held)
                self._held = None
                found.append(
                    replace(spike, kind="notice", sentence=f"{spike.sentence}, back by step {step}",
                            data={**spike.data, "told": spike.sentence, "back": step}) if back else spike
                )  # fmt: skip
        told = self._spike("gradient spike", self._gradient, step, norm, "gradient norm")
        if told and "expected" in told[0].data:
            self._held, self._since = told[0], []
            return found
        return found + told

    def _losing(self, step: int, loss: float) -> list[Alert]:
        """Report losses that are logged and are no numbers; rows that lack one by habit come one by one."""
        if not math.isnan(loss):
            before = 0 if self._lost else self._finite
            self._finite, self._lost = (before + 1 if math.isfinite(loss) else 0), 0
            return []
        self._lost += 1
        if self._lost != LOST or self._finite < LOGGED:
            return []
        sentence = f"the last {LOST} logged losses are not finite"
        return [Alert("alarm", "loss not finite", self.run, step, sentence)]

    def _drifts(self, step: int, loss: float) -> list[Alert]:
        if loss is None or not math.isfinite(loss):
            return []
        height = self._drift.update(math.log(max(loss, 1e-30)))
        self._looks["loss drift"] = self._drift.looks
        if height is None:
            return []
        return self._tell("loss drift", step, "the loss has been rising for several stretches of the run")

    def _not_finite(self, step: int, broken: Sequence[str]) -> list[Alert]:
        new = [name for name in broken if name not in self._broken]
        self._broken = set(broken)
        more = f", and {len(new) - 1} more" if len(new) > 1 else ""
        said = [f"{name} {NOT_FINITE}{more}" for name in new[:1]]
        return [Alert("alarm", "not finite", self.run, step, sentence) for sentence in said]

    def _spoilt(self, step: int, faults: Sequence[Fault]) -> list[Alert]:
        """Report what the checks of content found, as one alarm."""
        if not faults:
            return []
        others = len({fault.key[:2] for fault in faults}) - 1
        more = f", and {others} more" if others else ""
        return [Alert("alarm", "content", self.run, step, faults[0].sentence + more)]

    def _whole(self, step: int, since: int, rows: pd.DataFrame) -> list[Alert]:
        """Judge the norm of the whole update over the learning rates that made it."""
        part = rows[(rows["feature"] == of.UPDATE_NORM.name) & (rows["scope"] == Scope.MODEL)]
        if not len(part):
            return []
        norm, rate = float(part["value"].iloc[0]), self._rate_between(since, step)
        if not norm > 0:
            return []
        judged = self._update.update({"model": ("model", math.log(norm / rate))})
        if judged is None or judged.moves[0].size < 0 or judged.p > self._level("update norm"):
            return []
        before, now = math.exp(judged.moves[0].before), norm / rate
        sentence = f"update norm over learning rate is {now:.4g} where {before:.4g} was usual"
        return self._tell("update norm", step, sentence, p=judged.p)

    def _rate_between(self, since: int, step: int) -> float:
        """Return the mean rate of the updates between two checkpoints, else the latest known, else 1."""
        made = [rate for at, rate in self._rates if since <= at < step]
        mean = float(np.mean(made)) if made else 0.0
        if mean > 0:
            self._rate = mean
        return self._rate or 1.0

    def _slowly(self, step: int, slow: Sequence[Slow]) -> list[Alert]:
        """Report what grew, faded or stalled, for each test the farthest."""
        found: list[Alert] = []
        for test in ("update level", "growth"):
            self._looks[test] = self._looks.get(test, 0) + 1
            of_test = [one for one in slow if one.test == test]
            if of_test:
                more = f", and {len(of_test) - 1} more" if len(of_test) > 1 else ""
                found += self._tell(test, step, of_test[0].sentence + more)
        return found

    def _persistence(self, step: int, rows: pd.DataFrame) -> list[Alert]:
        found = followed(rows, self._led)
        if found is None or self._planned is None:
            return []
        label, value = found
        if self._phase is None:  # it simulates its null, which takes seconds
            from toposcope.statistics.phases.online import OnlineDetector

            self._phase = OnlineDetector(self._planned, rate=self._family.rate_of("phase boundary"))
        bend = self._phase.update(step, value)
        if bend is None:
            return []
        sentence = f"{label} bent at step {bend:.0f}"
        return [Alert("notice", "phase boundary", self.run, step, sentence, {"bend": bend})]


def followed(rows: pd.DataFrame, led: Sequence[Mapping[Hashable, Any]]) -> tuple[str, float] | None:
    """Return label and value of the feature that a watch follows: the first of `led` that some rows hold.

    `led` are lines of a store's catalogue. Where the weights are scaled, it is by the network: Rieck's rule.
    """
    whole = rows[rows["scope"] == Scope.MODEL]
    for line in led:
        mine = whole[(whole["probe"] == line["probe"]) & (whole["feature"] == line["feature"])]
        if Normalization.NETWORK in line["filtrations"]:
            mine = mine[mine["filtration"] == Normalization.NETWORK]
        if len(mine):
            return str(line["label"]), float(mine["value"].mean())
    return None


def culprits(look: PanelLook, most: int = 8) -> list[dict[str, object]]:
    """Return what moved most beyond its own history at one checkpoint, each matrix or head once.

    Nothing, where no check failed and not even the largest move stands above the noise of all of them.
    """
    found: list[dict[str, object]] = [
        {"name": name, "head": None, "feature": "finite", "sentence": NOT_FINITE} for name in look.broken
    ]
    found += [fault.line() for fault in look.faults]
    told: set[tuple[str, int]] = {fault.key[:2] for fault in look.faults}
    for slow in sorted(look.slow, key=lambda one: -one.change.size):
        if slow.change.key[:2] not in told and slow.change.key[0] != "model":
            told.add(slow.change.key[:2])
            found.append(slow.line())
    for move in () if look.judged is None or (look.judged.p > NOISE and not found) else look.judged.moves:
        name, head, feature = move.key
        if (name, head) in told:
            continue
        if abs(move.size) < NAMED:
            break
        told.add((name, head))
        before, now = _unlog(feature, move.before), _unlog(feature, move.now)
        found.append(
            {
                "name": name,
                "head": None if head < 0 else head,
                "feature": feature,
                "before": before,
                "now": now,
                "size": move.size,
                "sentence": f"{_head(head)}{feature} {before:.3g} -> {now:.3g} "
                f"({move.size:+.1f} of its own standard deviations)",
            }
        )
    return found[:most]


def _panel_values(rows: pd.DataFrame) -> dict[Key, tuple[Hashable, float]]:
    part = rows[rows["feature"].isin(_PANEL) & rows["scope"].isin(_OWN) & rows["draw"].isna()]
    heads = part["head"].fillna(-1).astype(int)
    found: dict[Key, tuple[Hashable, float]] = {}
    for name, head, feature, value, scope in zip(
        part["name"], heads, part["feature"], part["value"], part["scope"], strict=True
    ):
        if feature not in _ENTROPIES:
            value = math.log(value) if value > 0 else math.nan
        found[name, head, feature] = ((feature, scope), value)
    return found


def _unlog(feature: str, value: float) -> float:
    return value if feature in _ENTROPIES else math.exp(value)


def _head(head: int) -> str:
    return "" if head < 0 else f"head {head}: "


def _who(key: Key) -> str:
    name, head, feature = key
    return f"{name}{'' if head < 0 else f' head {head}'} ({feature})"


def base_name(run: str) -> str:
    """Return a run's name without the mark of its segment."""
    return re.sub(r"~\d+$", "", run)
