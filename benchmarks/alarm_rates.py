"""How often alarms on a loss are false, and what they find: python -m benchmarks.alarm_rates DATA.

DATA holds seed_runs/ and curves/. The runs are public, have more than 25 losses, and nothing bad is known of
them: every second run of parameter_golf and of 37 others, the half on which no constant of `health` was set.
Each is read to its end, as a finished log; every alarm there is false. Then the last tenth of the first half
is made worse. A rule has found this if it reports these losses, or the log as a whole. `toposcope watch` and
`check` are compared with plain rules, which compare each loss with the 25 before it, and with --losslint DIR
with the checks of losslint, installed there by `pip install losslint --target DIR`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import toposcope as ts
from benchmarks.watch_curves import tables
from toposcope.rules.replaying import replay
from toposcope.studies.public_runs.plain_rules import PLAIN_RULES, WINDOW, Rule


def watched(log: pd.DataFrame, since: float) -> bool:
    """Return whether the loss alarms of `toposcope watch` speak."""
    return any(alarm.step >= since for alarm in replay(log))


def checked(*levels: str) -> Rule:
    """Return the rule that `toposcope check` says one of these at the log's end."""
    return lambda log, since: ts.check(log).level in levels


RULES: Mapping[str, Rule] = {
    "toposcope check: stop": checked("stop"),
    "toposcope check: look or stop": checked("look", "stop"),
    "toposcope watch: loss alarms": watched,
    **PLAIN_RULES,
}


def of_losslint(folder: Path) -> Mapping[str, Rule]:
    """Return losslint's checks at their defaults, as they end a check with an error, or also warn."""
    sys.path.append(str(folder))
    from losslint.checks import run_all_checks  # type: ignore[import-not-found]
    from losslint.parsing import Log  # type: ignore[import-not-found]

    def rule(severities: tuple[str, ...]) -> Rule:
        def said(log: pd.DataFrame, since: float) -> bool:
            run = Log(source="run", steps=log["step"].tolist(), series={"loss": log["loss"].tolist()})
            return any(one.severity in severities for one in run_all_checks(run))

        return said

    return {
        "losslint: error": rule(("error",)),
        "losslint: warning or error": rule(("error", "warning")),
    }


def runs(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the set and the log of every second run with enough losses."""
    golf = pd.read_csv(data / "curves" / "parameter_golf" / "curves.csv.gz")
    logs = [log for _, log in golf.rename(columns={"train_loss": "loss"}).groupby("run")]
    for name, of_set in (("parameter_golf", logs), ("others", [log for _, log in tables(data)])):
        for log in of_set[1::2]:
            known = log[["step", "loss"]].dropna().reset_index(drop=True)
            if len(known) > WINDOW:
                yield name, known


FAULTS: Mapping[str, Callable[[int], np.ndarray]] = {
    "20% higher": lambda count: np.full(count, 1.2),
    "twice as high": lambda count: np.full(count, 2.0),
    "climbs to twice": lambda count: np.geomspace(1, 2, count),
}
"""By what the last tenth of a log is multiplied, three losses at least."""


def hurt(log: pd.DataFrame, fault: Callable[[int], np.ndarray]) -> tuple[pd.DataFrame, float]:
    """Return the first half of a log with a fault in its last tenth, and the step at which that begins."""
    half = log[: max(len(log) // 2, WINDOW + 3)].copy()
    count = max(3, len(half) // 10)
    half.loc[half.index[-count:], "loss"] *= fault(count)
    return half, float(half["step"].iloc[-count])


def share(found: int, of: int) -> str:
    """Return a share with its 95% interval by Wilson."""
    low, high = binomtest(found, of).proportion_ci(method="wilson")
    return f"{found} of {of} [{low:.1%}, {high:.1%}]"


def main() -> None:
    """Print false alarms by set and what is found by fault, rule by rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--losslint", type=Path, help="folder that losslint was installed into")
    parser.add_argument("--every", type=int, default=1, help="take each n-th run of a set")
    options = parser.parse_args()
    rules = {**RULES, **(of_losslint(options.losslint) if options.losslint else {})}
    of: dict[str, list[pd.DataFrame]] = {}
    for name, log in runs(options.data):
        of.setdefault(name, []).append(log)
    of = {name: logs[:: options.every] for name, logs in of.items()}
    everything = [log for logs in of.values() for log in logs]
    for name, rule in rules.items():
        false = [
            f"{kind} {share(sum(rule(log, 0.0) for log in logs), len(logs))}" for kind, logs in of.items()
        ]
        print(f"{name}: false: {'; '.join(false)}")
        for fault, made in FAULTS.items():
            found = sum(rule(*hurt(log, made)) for log in everything)
            print(f"  the last tenth {fault}: {share(found, len(everything))}", flush=True)


if __name__ == "__main__":
    main()
