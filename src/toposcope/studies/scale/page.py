"""The study's sections: claims judged, by size, and what changes with size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.studies.claims import claims_section
from toposcope.studies.scale.claims import claims, size_text
from toposcope.studies.scale.families import FinishedRun
from toposcope.studies.scale.series import FURTHER, ScaleRuns
from toposcope.studies.sections import Section
from toposcope.studies.seed004.claims import LEAST_ORDERED
from toposcope.studies.seed004.runs import printed
from toposcope.studies.seed004.seeds import FEATURES, PRINTED, AcrossSeeds, shown, shown_rho
from toposcope.studies.versions import versions


def sections(runs: Sequence[FinishedRun]) -> list[Section]:
    """Return the claims over all sizes, by size, what changes with size, and the tests behind them."""
    measured = ScaleRuns.of(runs)
    alike = measured.of_equal_length
    sizes = {name: measured.of_size(size) for size, name in measured.models.items()}
    return [
        claims_section(claims(measured)),
        _by_size(sizes),
        _changes(sizes),
        _persistence(sizes),
        _beyond(measured, sizes),
        *([_laws(alike)] if len(alike.models) >= LEAST_ORDERED else []),
        _runs(measured),
        versions(),
    ]


def _by_size(sizes: dict[str, ScaleRuns]) -> Section:
    """Judge what one size can answer, size by size."""
    judged = {
        name: {claim.text: claim.judgement.value for claim in claims(runs)} for name, runs in sizes.items()
    }
    texts = list(dict.fromkeys(text for judgements in judged.values() for text in judgements))
    rows = [
        (text, *(judgements.get(text) for judgements in judged.values()))
        for text in texts
        if "Pythia" not in text
    ]
    alike = sum(len(set(row[1:])) == 1 for row in rows)
    return Section(
        f"Of {len(rows):,} claims that one size can answer, {alike:,} are judged alike in all",
        ("claim", *sizes),
        tuple(rows),
        "Each size alone, all its seeds together.",
    )


def _changes(sizes: dict[str, ScaleRuns]) -> Section:
    rows = []
    for name, runs in sizes.items():
        ends = runs.ends
        rows.append((
            name, int(ends["parameters"].iloc[0]), len(ends), int(ends["steps"].iloc[0]),
            int(ends["tokens"].iloc[0]), shown(ends["heldout_loss"]), shown_rho(runs.rho("h0_total")),
            shown_rho(runs.rho("h0_total_free")), shown_rho(runs.rho("h1_total")),
            shown_rho(runs.rho("neural_persistence")),
            shown(_squared_of_runs(runs, "h0_total_free", "mean_distance")),
        ))  # fmt: skip
    return Section(
        "What changes with size: the loss and its correlations",
        ("model", "parameters", "seeds", "steps", "tokens", "held-out loss", "rho of H0 and the loss",
         "rho of H0, bars of any length", "rho of H1", "rho of neural persistence",
         "R2 of H0 with the mean distance"),
        tuple(rows),
        "Means over seeds with Student's 95% intervals. The paper drops bars above 2.0. Rho shows how well "
        "both follow the step.",
    )  # fmt: skip


def _persistence(sizes: dict[str, ScaleRuns]) -> Section:
    rows = []
    for name, runs in sizes.items():
        first, last = (part["neural_persistence"] for part in (runs.rows[runs.rows["step"] == 0], runs.ends))
        rows.append((
            name, len(runs.of_matrices), shown(first), shown(last),
            size_text(runs, None, "share", percent=True),
            size_text(runs, None, "r2"), size_text(runs, None, "r2_shuffled"),
            size_text(runs, "mlp", "share", percent=True), size_text(runs, "mlp", "r2_shuffled"),
        ))  # fmt: skip
    return Section(
        "What changes with size: neural persistence, and its repair, against simpler numbers",
        ("model", "matrices and MLPs", "neural persistence, first", "last", "taken away by shuffling, %",
         "R2 with std of |w| / max", "R2 with shuffled", "deep: taken away by shuffling, %",
         "deep: R2 with shuffled"),
        tuple(rows),
        "First and last: means over seeds. The other columns are means over the matrices, or the MLPs, of "
        "all seeds with 95% intervals; R2 is over the checkpoints of one matrix. Near 1, the simpler number "
        "says the same.",
    )  # fmt: skip


def _squared_of_runs(runs: ScaleRuns, x: str, y: str) -> list[float]:
    squares = [np.corrcoef(part[x], part[y])[0, 1] ** 2 for _, part in runs.rows.groupby("run", sort=False)]
    return [float(square) for square in squares]


def _beyond(measured: ScaleRuns, sizes: dict[str, ScaleRuns]) -> Section:
    rows = []
    for name, runs in {"all sizes": measured, **sizes}.items():
        paper, further = runs.across.verdicts, runs.verdicts
        for column, label in {**FEATURES, **FURTHER}.items():
            table = paper if column in FEATURES else further
            if column in table.index:
                line = table.loc[[column]].to_dict("records")[0]
                r, p = float(line["r"]), float(line["p_holm"])
                rows.append((name, label, r, p, float(line["detectable_r"]), str(line["verdict"])))
    return Section(
        "Beyond the drift",
        ("model", "feature", "r of innovations", "p, Holm", "r that would be found", "verdict"),
        tuple(rows),
        "The target is the held-out loss. Innovations are what a smooth trend and a series' own past do not "
        "explain. Holm's method corrects over the paper's three features, and over the others.",
    )


def _laws(measured: ScaleRuns) -> Section:
    across = measured.across
    labels = {"loss": "final minibatch loss", "heldout_loss": "final held-out loss", **FEATURES}
    stated = {"loss": "loss", **PRINTED}
    rows = [
        (
            label,
            printed()["scaling"].get(stated.get(column, ""), {}).get("exponent"),
            _exponent(across, column),
            len(across.families),
        )
        for column, label in labels.items()
    ]
    return Section(
        "Power laws of the final values with the size",
        ("quantity", "exponent: paper", "exponent", "seeds of every size"),
        tuple(rows),
        f"A straight line in log-log through the {len(measured.models):,} sizes of equally many steps, one "
        "for each seed that they share. The interval is over seeds, or over the sizes for one seed.",
    )


def _exponent(across: AcrossSeeds, column: str) -> str:
    mean, low, high = across.exponent(column)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _runs(measured: ScaleRuns) -> Section:
    columns = (
        "run",
        "device",
        "corpus",
        "tokenizer",
        "steps",
        "tokens",
        "loss_smooth",
        "heldout_loss",
        "seconds",
    )
    rows = tuple(tuple(row[name] for name in columns) for row in measured.ends.to_dict("records"))
    return Section("The runs", columns, rows, "On cuda the products of the training are bfloat16.")
