"""Can topology predict scaling exponents that are known? Simulated families, and their features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toposcope.core.forms import interval
from toposcope.core.progress import Progress
from toposcope.studies.claims import Claim, Standing, claims_section
from toposcope.studies.measuring import measured
from toposcope.studies.sections import Section
from toposcope.studies.versions import versions
from toposcope.study.recover import exponent_recovery
from toposcope.study.table import series_table
from toposcope.synthetic import Spectrum, SyntheticRecipe, write_families

FAMILIES = 24
"""The number of families: this many are measured in under two minutes."""
RECIPE = SyntheticRecipe(spectrum=Spectrum(modes=256), widths=(64,), steps=1000)
"""One width per family, large enough to show its spectrum."""
SETS = {
    "topology": "topology",
    "norms": "norms and spectra",
    "loss": "the loss curve",
    "size": "the model's size alone",
}
BESIDE = ("norms", "loss")
_EXPONENTS = {"a": "of the target (a)", "b": "of the spectrum (b)"}


def reproduce(folder: Path, *, families: int = FAMILIES, jobs: int = 1, quiet: bool = False) -> list[Section]:
    """Simulate families of known exponents into `folder`, measure them, and predict the exponents.

    Raises
    ------
    InputError
        When a run could not be measured.
    """
    recovered = _recovered(folder, families, jobs, quiet)
    rows = {(line["target"], line["features"]): line for line in recovered.to_dict("records")}
    claims = [_claim(rows, target) for target in _EXPONENTS]
    return [claims_section(claims), _table(rows), versions()]


def _recovered(folder: Path, families: int, jobs: int, quiet: bool):  # type: ignore[no-untyped-def]
    from toposcope.sources import open_series
    from toposcope.subjects import weight_probes
    from toposcope.subjects.weights import WeightOptions

    folders = []
    with Progress("simulating", families, quiet=quiet) as progress:
        for family in write_families(folder / "families", RECIPE, families, resume=True):
            folders.append(str(family.folder))
            progress.advance(note=family.folder.name)
    options = WeightOptions(nulls=0)
    probes = weight_probes(["neural_persistence", "rips", "baselines"], options)
    series = open_series(folders)
    with measured(series, probes, folder / "store", recipe=options.recipe(), jobs=jobs, quiet=quiet) as store:
        return exponent_recovery(series_table(store.features(), store.metrics(), store.runs()))


def _claim(rows: dict[tuple[str, str], dict[Any, Any]], target: str) -> Claim:
    """Return the claim about one exponent, with the errors of cheaper predictors beside it."""
    mine = rows[target, "topology"]
    name = _EXPONENTS[target]
    beside = ", ".join(f"{SETS[other]} {rows[target, other]['mae']:.3f}" for other in BESIDE)
    return Claim(
        text=f"Topology predicts the exponent {name} from the first half of training",
        source="expected",
        here=f"error {mine['mae']:.3f}; mean of the other families {mine['mean_mae']:.3f}; {beside}",
        statistic=f"effect {mine['effect']:+.3f} {interval(mine, 'low', 'high', '{:+.3f}')}, "
        f"p {mine['null_p']:.2g} (shuffled exponents)",
        judgement=_judged(mine, min(rows[target, other]["mae"] for other in BESIDE)),
    )


def _judged(mine: Mapping[str, Any], cheaper: float) -> Standing:
    """Judge a prediction: it has to beat the mean of the others, and its error those of cheaper numbers."""
    if not (mine["high"] < 0 and mine["null_p"] < 0.05):
        return Standing.FAILS
    return Standing.OUTDONE if cheaper < mine["mae"] else Standing.HOLDS


def _table(rows: dict[tuple[str, str], dict[Any, Any]]) -> Section:
    cells = [
        (
            _EXPONENTS[target], SETS[name], line["n"], line["mae"], line["mean_mae"], line["r"],
            line["effect"], interval(line, "low", "high", "{:+.3f}"), line["null_p"], line["reason"],
        )
        for (target, name), line in rows.items()
    ]  # fmt: skip
    return Section(
        "Exponents predicted from features",
        ("exponent", "features", "families", "error", "of the mean", "r", "effect", "95%", "p", "reason"),
        tuple(cells),
        "Every family is left out in turn and predicted from the others, by ridge regression on the last "
        "value and the late slope of each feature in the first half of training. Effect: mean error minus "
        "that of the other families' mean. p: how often shuffled exponents are predicted at least as well. "
        "The weights of this model contain its spectrum by construction, and norms and spectra measure it "
        "directly.",
    )  # fmt: skip
