"""What half and double of a limit would give: python -m benchmarks.limits [ROOM ...] [--out FILE].

Nobody wrote down what the limits of six files were set on. Here each is halved and doubled, and the rules
judge drawn series: healthy ones, of which none should be flagged, and the same with one planted fault, of
which all should be found. A limit is held from below if half of it flags more healthy series or finds fewer
faults, and from above if double of it does; otherwise these series do not need it. All is drawn from fixed
seeds, and no limit is set on the result.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.collapse_rates import drawn
from toposcope.core.seeding import rng
from toposcope.logs import copies, glitches
from toposcope.runs import collapse
from toposcope.sources import audit_checks
from toposcope.statistics.alarms import growth
from toposcope.study import net_change
from toposcope.study.table import SeriesTable


@dataclass(frozen=True)
class Room:
    """The limits of a file, and its judgement of drawn series: (healthy flagged, of, faults found, of)."""

    module: ModuleType
    limits: tuple[str, ...]
    judge: Callable[[], tuple[int, int, int, int]]


def noisy(g: np.random.Generator, n: int, kind: int) -> np.ndarray:
    """Return noise of spread 1: normal, correlated by 0.7, or Student's t with 4 degrees of freedom."""
    if kind == 1:
        noise = g.standard_normal(n)
        for i in range(1, n):
            noise[i] = 0.7 * noise[i - 1] + 0.71 * noise[i]
        return noise
    return g.standard_normal(n) if kind == 0 else g.standard_t(4, n) / math.sqrt(2)


def of_glitches() -> tuple[int, int, int, int]:
    """Count logs with a glitch; planted is one loss, 1.5 times as large."""
    flagged, found, count = 0, 0, 300
    for number in range(count):
        g = rng(name="limits-glitches", seed=number)
        step = np.arange(1.0, 401.0)
        spread = (0.005, 0.02, 0.05)[number // 3 % 3]
        loss = (2 + 4 * step**-0.4) * np.exp(spread * noisy(g, 400, number % 3))
        flagged += bool(glitches.glitches(loss).any())
        place = int(g.integers(20, 380))
        loss[place] *= 1.5
        found += bool(glitches.glitches(loss)[place])
    return flagged, count, found, count


def of_net_change() -> tuple[int, int, int, int]:
    """Count columns that moved; planted is a line over three standard deviations of the noise."""
    flagged, found, count = 0, 0, 300
    for number in range(count):
        g = rng(name="limits-net-change", seed=number)
        n = (6, 12, 60)[number % 3]
        noise = g.standard_normal(n)
        for values in (noise, noise + 3 * np.linspace(0, 1, n)):
            rows = pd.DataFrame({"run": "a", "step": np.arange(n), "mine": values})
            table = SeriesTable(rows, rows, pd.DataFrame(), ())
            moved = net_change.beyond_scatter(table, "mine", "a")
            flagged, found = flagged + (moved and values is noise), found + (moved and values is not noise)
    return flagged, count, found, count


def of_growth() -> tuple[int, int, int, int]:
    """Count norms that grow or leave their level; planted is a tripling within 3, 8 or 24 checkpoints."""
    flagged, found, count = 0, 0, 240
    for number in range(count):
        g = rng(name="limits-growth", seed=number)
        n, lasts = (24, 60, 300)[number % 3], (3, 8, 24)[number // 3 % 3]
        step, spread = 100 * np.arange(1, n + 1), (0.01, 0.05, 0.15)[number // 9 % 3]
        noise = spread * noisy(g, n, number // 27 % 2)
        power = g.uniform(0, 0.5)
        leap = np.log(1 - 0.8 * np.exp(-np.arange(n) / 2))  # training begins with one
        trained = power * np.log(step) + leap + noise
        at = int(g.integers(10, n - 8))
        fault = math.log(3) * np.clip((np.arange(n) - at) / lasts, 0, 1)
        for ill in (False, True):
            # a doubling is the limit of matrices and of levels in watch/alarms
            grown = growth.Growth[str]({"matrix": math.log(2)})
            level = growth.Level[str](math.log(2), math.log(2))
            told = False
            for s, x, y in zip(
                step.tolist(),
                (trained + ill * fault).tolist(),
                (leap + noise + ill * fault).tolist(),
                strict=True,
            ):
                told |= bool(grown.update(s, {"w": ("matrix", x)})) | bool(level.update(s, [("w", y)]))
            flagged, found = flagged + (told and not ill), found + (told and ill)
    return flagged, count, found, count


def of_jumps() -> tuple[int, int, int, int]:
    """Count series with a jump; planted is one step, 8 times as long."""
    flagged, found, count = 0, 0, 300
    for number in range(count):
        g = rng(name="limits-jumps", seed=number)
        n = (12, 20, 60)[number % 3]
        spread = (0.05, 0.2, 0.4)[number // 3 % 3]
        steps: Any = [SimpleNamespace(checkpoint=SimpleNamespace(step=100 * i)) for i in range(n)]
        change = np.exp(-np.arange(n) / n + spread * noisy(g, n, number % 3))
        place = int(g.integers(4, n - 4))
        for length in (1.0, 8.0):
            moved = change.copy()
            moved[place] *= length
            track = audit_checks._Track(np.full(n, 100.0), moved, moved)
            at = [index for index, _ in audit_checks._jumps(steps, track)]
            flagged, found = flagged + (length == 1.0 and bool(at)), found + (length > 1.0 and place in at)
    return flagged, count, found, count


def of_copies() -> tuple[int, int, int, int]:
    """Count columns called copies: none of six other quantities is, six copies of loss and step are."""
    flagged = found = others = known = 0
    for number in range(60):
        g = rng(name="limits-copies", seed=number)
        n, digits = (7, 20, 51)[number % 3], (2, 3, 4)[number // 3 % 3]
        step = np.linspace(0.0, 5000.0, n).round()
        noise = (0.0, 0.003, 0.03)[number // 9 % 3]
        loss = (2 + 12 * (step + 100) ** -0.3 + noise * g.standard_normal(n)).round(digits)
        rises = np.sort(g.standard_normal(n))
        other = pd.DataFrame(
            {"norm": (1 + np.log(step + 50) + 0.02 * g.standard_normal(n)).round(digits),
             "walk": g.standard_normal(n).cumsum().round(digits), "smooth": np.sqrt(step + 7) + step / 700,
             "near": (loss + 0.01 * g.standard_normal(n)).round(digits), "rises": rises.round(digits),
             "hits": g.poisson(2.0, n).cumsum()}
        )  # fmt: skip
        passed = np.cumsum(g.gamma(20.0, 0.5, n))
        passed[n // 2 :] -= passed[n // 2] * (number % 2)  # the clock of a run that was begun anew
        copy = pd.DataFrame(
            {"ppl": np.exp(loss).round(1), "bits": (loss / np.log(2)).round(digits), "minus": -loss,
             "share": (step / 1700).round(digits), "stairs": np.floor(step / 700),
             "wall_time": passed.round(1)}
        )  # fmt: skip
        table = pd.concat([pd.DataFrame({"run": "a", "step": step, "loss": loss}), other, copy], axis=1)
        called = copies.copies(table, ["loss"], [*other, *copy])
        flagged, others = flagged + len(called.keys() & set(other)), others + other.shape[1]
        found, known = found + len(called.keys() & set(copy)), known + copy.shape[1]
    return flagged, others, found, known


def of_collapse() -> tuple[int, int, int, int]:
    """Count runs off their siblings, of the families of `benchmarks.collapse_rates`; planted are 5%."""
    flagged = found = count = 0
    for number in range(24):
        group = drawn(number)
        g = rng(name="limits-collapse", seed=number)
        for curve in group:
            seen = curve.seen(g.uniform(0.15, 0.9) * curve.horizon)
            late = seen.step >= 0.75 * seen.last
            ill = replace(seen, loss=np.where(late, 1.05, 1.0) * seen.loss)
            healthy, raised = (collapse.collapse_residual(one, group) for one in (seen, ill))
            count += 1
            flagged += healthy is not None and healthy.off
            found += raised is not None and raised.off
    return flagged, count, found, count


ROOMS = {
    "glitches": Room(
        glitches, ("HALF_WINDOW", "_LOCAL", "SPREADS", "LEAST", "MOST_IN_A_ROW", "FEWEST", "_FIRST"),
        of_glitches,
    ),
    "net change": Room(net_change, ("_FEWEST", "_END", "_RATE"), of_net_change),
    "growth": Room(
        growth, ("LAGS", "EARLIEST", "EARLIER", "KEPT", "SPREADS", "NEWEST"), of_growth,
    ),
    "jumps": Room(audit_checks, ("MAD_SIGMAS", "JUMP"), of_jumps),
    "copies": Room(
        copies,
        ("LEAST_TURNS", "_BETWEEN", "_MOST", "LEAST_ROWS", "LEAST_LEVELS", "_WIDE", "_SLACK", "_ONE_WAY"),
        of_copies,
    ),
    "collapse": Room(
        collapse, ("BLOCKS", "LEAST_SHARE", "_SETTLED", "_LEAST_SPREAD", "_SAME_RATIO", "_SAME_RATE"),
        of_collapse,
    ),
}  # fmt: skip
SHARES = ("_MOST", "_ONE_WAY", "_SETTLED")
"""Shares of a whole: what is halved and doubled is the rest, since twice of them is more than all."""
FACTORS = ("_SAME_RATIO",)
"""Ratios of at least one: what is halved and doubled is how far they are from one."""


def scaled(name: str, value: Any, factor: float) -> Any:
    """Return a limit times a factor: whole numbers stay whole and at least 1."""
    if isinstance(value, tuple):
        return tuple(scaled(name, each, factor) for each in value)
    if name in SHARES:
        return 1 - factor * (1 - value)
    if name in FACTORS:
        return 1 + factor * (value - 1)
    return max(1, round(factor * value)) if isinstance(value, int) else factor * value


def rows_of(name: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each limit of a room and each of its values: as it is, half, double."""
    room = ROOMS[name]
    stands = room.judge()
    yield (name, "all", "as they are", "", *map(str, stands), "")
    for limit in room.limits:
        value = getattr(room.module, limit)
        for word, factor in (("half", 0.5), ("double", 2.0)):
            setattr(room.module, limit, scaled(limit, value, factor))
            try:
                changed = room.judge()
            finally:
                setattr(room.module, limit, value)
            worse = changed[0] > stands[0] or changed[2] < stands[2]
            better = changed[0] < stands[0] or changed[2] > stands[2]
            says = (
                "worse and better"
                if worse and better
                else "worse"
                if worse
                else "better"
                if better
                else "same"
            )
            shown = scaled(limit, value, factor)
            printed = "; ".join(f"{each:.3g}" for each in (shown if isinstance(shown, tuple) else (shown,)))
            yield (name, limit, word, printed, *map(str, changed), says)


HEADING = ("room", "limit", "taken as", "value", "healthy flagged", "healthy", "faults found", "faults", "so")


def main() -> None:
    """Print the rows; write them as CSV on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)} (all)")
    parser.add_argument("--out", type=Path, help="write the rows as CSV to this file")
    options = parser.parse_args()
    rows = []
    printer = csv.writer(sys.stdout, lineterminator="\n")
    printer.writerow(HEADING)
    for name in options.rooms or ROOMS:
        for row in rows_of(name):
            printer.writerow(row)
            sys.stdout.flush()
            rows.append(row)
    if options.out is not None:
        with options.out.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle, lineterminator="\n").writerows([HEADING, *rows])


if __name__ == "__main__":
    main()
