"""How often each special rule of the verdict's test fires, and what it changes.

Run: python -m benchmarks.analysis_reasons. Every rule is switched off in turn, on the same pairs. It *fires*
on a pair if this changes p, or the reason why there is none. It *decides* a pair if this changes the outcome
(adds, does not, no verdict).

- The first table has white noise and random walks, pairs of independent series: the percentage in which each
  rule fires, and in brackets the percentage in which it decides.
- The second has what each rule was written for: the percentage of pairs that add with the rule and without
  it, and the difference with its standard error, which is that of paired shares.
- `--store STORE` counts instead the rows of a store's features over all runs, and the same with white noise
  instead of its features.

`--draws N` sets the pairs per cell; `--rule TEXT` selects the rules whose name has this text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.analysis_rates import GRIDS as RATE_GRIDS
from benchmarks.analysis_unkind import JUDGES, KNOWN, POWER, SET, Pairs, apart, both_spike, lead
from benchmarks.repeating_nulls import REPEATING_JUDGES, REPEATING_SETTING
from benchmarks.setting_nulls import SETTING_NULLS
from toposcope.core.seeding import rng
from toposcope.statistics.trends import _coincidences as coincidences
from toposcope.statistics.trends import innovations, joint, refusals, whitening
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends._nulls import NULLS
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.innovations import Innovations, innovation_test
from toposcope.statistics.trends.preregistered_nulls import PREREGISTERED_NULLS
from toposcope.statistics.trends.whitening import Whitened, whiten

GRIDS = {**RATE_GRIDS, "154 even": np.arange(154) * 100}
PLAIN = ("26 even", "51 even", "154 even", "48 log", "51, 12 missing")
SERIES = {
    **NULLS,
    **HELD_OUT_NULLS,
    **PREREGISTERED_NULLS,
    **REPEATING_JUDGES,
    **REPEATING_SETTING,
    **SETTING_NULLS,
}
OTHER_PAIRS: dict[str, Pairs] = {
    **SET, **JUDGES, **{name: make for name, (make, _) in (POWER | KNOWN).items()},
    "common spikes of 8 sigma at 10%": both_spike(0.1, 8.0),
}  # fmt: skip
Patch = tuple[ModuleType, str, Any]


def _never(z: Whitened | np.ndarray, *_: object) -> np.ndarray:
    columns = z.e.shape[1] if isinstance(z, Whitened) else z.shape[1]
    return np.zeros(columns, bool)


def _unrefused(**fields: bool) -> Any:
    """Return `untestable` with these fields of both series False."""
    bare = refusals.untestable

    def untestable(x: Whitened, y: Whitened) -> np.ndarray:
        changed = {name: np.zeros(len(x.order), bool) for name in fields}
        return bare(replace(x, **changed), replace(y, **changed))

    return untestable


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what switches it off, the cases (grid, name) it was written for, whether the rate is known."""

    off: tuple[Patch, ...]
    cases: tuple[tuple[str, str], ...]
    known: bool = True


def _notes(x: Whitened) -> np.ndarray:
    return np.full(x.e.shape[1], "", dtype=object)


_NO_TURNS: Patch = (coincidences, "_without_turns", lambda x, y, *_: (x, y, _notes(x)))
_NO_SWINGS: Patch = (innovations, "both_swing", lambda steps, e, f: np.zeros(e.shape[1], bool))
RULES: dict[str, Rule] = {
    "shape that both repeat, left out": Rule(
        ((coincidences, "_without_shapes", lambda x, y, _: (x, y, _notes(x))),),
        (("51 even", "saws of 12"), ("51 even", "pulses of 13, a quarter wide"), ("48 log", "decays of 9"),
         ("26 even", "saws of 6")),
    ),
    "wave that both keep, left out": Rule(
        ((coincidences, "_without_waves", lambda x, y, *_: (x, y)),),
        (("51 even", "equal periods of 15, own phases"), ("51 even", "chirps of 20 to 4"),
         ("48 log", "power laws and seasons of 12 + 2% noise"), ("26 even", "power laws, season 9 + 3%"),
         ("26 even", "wave 8 + 30%")),
    ),
    "wave of each half (from 120)": Rule(
        ((coincidences, "LEAST_HALF", 10**9),), (("154 even", "swings of 6 to 15 and back"),)
    ),
    "swings whose period drifts, refused": Rule(
        (_NO_SWINGS,),
        (("51 even", "chirps of 20 to 4"), ("51 even", "chirps of 12 to 5"),
         ("26 even", "chirps of 12 to 5"), ("51 even", "swings of 6 to 15 and back"),
         ("51 even", "chirps of 16 to 6, late"), ("51 even", "chirps of 30 to 3, early"),
         ("154 even", "swings of 6 to 15 and back")),
    ),
    "turn with no known rate, no verdict": Rule(
        (_NO_TURNS,),
        (("51 even", "rate drops at .5, noise 1%"), ("51 even", "rate drops thrice, noise .5%"),
         ("26 even", "rate drops at .5, noise 1%")),
        known=False,
    ),
    "too smooth": Rule(
        ((innovations, "untestable", _unrefused(exhausted=True)),),
        (("51 even", "power laws without noise"), ("51 even", "sigmoids + 0.1% noise"),
         ("26 even", "sigmoids + 0.1% noise")),
    ),
    "missing, one period": Rule(
        ((refusals, "_one_line", _never),),
        (("51, 12 missing", "equal periods of 7, own phases"), ("51, 12 missing", "wave 11 + 40%")),
    ),
    "uneven steps, one stretch": Rule(
        ((refusals, "_one_stretch", _never),),
        (("48 log", "warmup, then a power law + 1% noise"), ("48 log", "ramps + 1%")),
    ),
    "rests on one stretch, no verdict": Rule(
        ((joint, "_rest", lambda *_: ""), (joint, "_rest_of_spikes", lambda *_: "")),
        (("51 even", "one transition over 3"), ("51 even", "spikes up at 3%, x 10"),
         ("26 even", "spikes up at 3%, x 10")),
    ),
    "persistence kept by both": Rule(
        ((innovations, "persistence_left", lambda e, *_: np.ones(e.shape[1])),),
        (("51 even", "cycle 12, .95"), ("26 even", "averaged over 7"), ("51 even", "walks of walks"),
         ("51 even", "equal periods of 15, own phases")),
    ),
    "shared spikes, by orders": Rule(
        ((joint, "_alignable", lambda _: None),), (("51 even", "common spikes of 8 sigma at 10%"),)
    ),
    "leads and lags": Rule(
        ((joint, "LAGS", (0,)), (joint, "OWN_SHARE", 0.8)), (("51 even", "r = 0.7, 1 ahead"),)
    ),
    "running means over rows, uneven steps": Rule(
        ((whitening, "likeliest", lambda *_: None),),
        (("154 Pythia", "EMA .9 of power laws + 10%"), ("48 log", "EMA .9 of power laws + 10%")),
    ),
}  # fmt: skip


@contextmanager
def switched_off(rule: Rule) -> Iterator[None]:
    """Switch a rule off, and on again."""
    kept = [(module, name, getattr(module, name)) for module, name, _ in rule.off]
    try:
        for module, name, value in rule.off:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def drawn(case: str, steps: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs (n, draws) of a case: of `SERIES`, each of a pair independently, or of `OTHER_PAIRS`."""
    g = rng(name="reasons", case=case, n=len(steps), draw=draws)
    if case in OTHER_PAIRS:
        return OTHER_PAIRS[case](g, steps, draws)
    one: Pairs = apart(lambda g, steps, draws: sim.at_steps(SERIES[case], g, steps, draws))
    return one(g, steps, draws)


class Cell:
    """The pairs of one case on one grid, tested with all rules and without one."""

    def __init__(self, case: str, grid: str, draws: int) -> None:
        self.steps = GRIDS[grid].astype(float)
        self.pairs = drawn(case, self.steps, draws)
        self.white = self._whitened()
        self.whole = {known: self._tested(known) for known in (True, False)}

    def _whitened(self) -> tuple[Whitened, Whitened]:
        x, y = (whiten(z, self.steps) for z in self.pairs)
        return x, y

    def _tested(self, known: bool, white: tuple[Whitened, Whitened] | None = None) -> Innovations:
        return innovation_test(*(white or self.white), intervals=False, rate_known=known)

    def without(self, rule: Rule) -> Innovations:
        """Return the test of these pairs with the rule switched off."""
        with switched_off(rule):
            anew = any(module is whitening for module, *_ in rule.off)
            whitening._CACHE.clear()
            return self._tested(rule.known, self._whitened() if anew else None)


def outcome(test: Innovations) -> np.ndarray:
    """Return 2 for pairs that add, 1 for pairs without a verdict, 0 elsewhere."""
    return np.where(test.found, 2, np.where(test.silent, 1, 0))


def fired(whole: Innovations, bare: Innovations) -> np.ndarray:
    """Say of each pair whether p, or why there is none, differs."""
    same = np.isclose(whole.p, bare.p, rtol=1e-6, atol=0.0, equal_nan=True)
    return np.asarray(~same | (outcome(whole) != outcome(bare)) | (whole.why != bare.why))


def on_noise(rules: dict[str, Rule], draws: int) -> None:
    """Print how often each rule fires on white noise and on walks, and in brackets decides."""
    cells = {(kind, grid): Cell(kind, grid, draws) for kind in ("white", "random walks") for grid in PLAIN}
    print(f"{draws} pairs a cell: percent in which a rule fires (decides)")
    print("| rule |", " | ".join(f"{kind}, {grid}" for kind, grid in cells), "|")
    for name, rule in rules.items():
        row = []
        for cell in cells.values():
            whole, bare = cell.whole[rule.known], cell.without(rule)
            decides = outcome(whole) != outcome(bare)
            row.append(f"{100 * fired(whole, bare).mean():.1f} ({100 * decides.mean():.1f})")
        print(f"| {name} |", " | ".join(row), "|", flush=True)


def on_its_own(rules: dict[str, Rule], draws: int) -> None:
    """Print what each rule moves on what it was written for, and on r = .5 in white noise there."""
    print(f"\n{draws} pairs a cell: percent that add with the rule, without it, the difference (s.e.)")
    print("| rule | pairs | grid | fires | with | without | difference |")
    for name, rule in rules.items():
        grids = list(dict.fromkeys(grid for grid, _ in rule.cases))
        for grid, case in [*rule.cases, *((grid, "r = 0.5, white noise") for grid in grids)]:
            cell = Cell(case, grid, draws)
            whole, bare = cell.whole[rule.known], cell.without(rule)
            moved = whole.found.astype(float) - bare.found
            error = moved.std() / np.sqrt(draws)
            print(
                f"| {name} | {case} | {grid} | {100 * fired(whole, bare).mean():.1f} | "
                f"{100 * whole.found.mean():.1f} | {100 * bare.found.mean():.1f} | "
                f"{100 * moved.mean():+.1f} ({100 * error:.1f}) |",
                flush=True,
            )


def on_store(rules: dict[str, Rule], store: Path) -> None:
    """Print in how many rows of a store's features each rule fires and decides; the same for white noise."""
    from toposcope.api import analyze
    from toposcope.study.trends.verdicts import family_table

    study = analyze(store).studies[0]
    series = study.series
    columns = study.columns
    noise = series.values.copy()
    noise[columns] = rng(name="reasons", case="store").standard_normal((len(noise), len(columns)))
    print(f"{store.name}, {study.target}: rows of {len(columns)} in which a rule fires (decides)")
    print("| rule | features | white noise in their place |")
    tables = [series, replace(series, values=noise)]
    kept = [family_table(table, targets=[study.target], columns=columns) for table in tables]
    for name, rule in rules.items():
        row = []
        for table, whole in zip(tables, kept, strict=True):
            with switched_off(rule):
                bare = family_table(table, targets=[study.target], columns=columns)
            same = np.isclose(whole["p"], bare["p"], rtol=1e-6, atol=0.0, equal_nan=True)
            decides = whole["verdict"] != bare["verdict"]
            row.append(f"{int((~same | decides).sum())} ({int(decides.sum())})")
        print(f"| {name} |", " | ".join(row), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--rule", default="")
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    rules = {name: rule for name, rule in RULES.items() if options.rule in name}
    if options.store:
        return on_store(rules, options.store)
    on_noise(rules, options.draws)
    on_its_own(rules, options.draws)


SERIES["white"] = sim.white
OTHER_PAIRS["r = 0.5, white noise"] = lead(0.5, 0)


if __name__ == "__main__":
    main()
