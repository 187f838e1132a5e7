"""The cost of a function of the toolbox, from the table that the benchmark writes, on the function's page."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

TABLE = Path(__file__).parents[1] / "evidence" / "toolbox-costs.csv"


@cache
def costs() -> dict[str, str]:
    """Return the sentence of each function, by its name."""
    with TABLE.open(newline="", encoding="utf-8") as handle:
        return {row["function"]: _sentence(row) for row in csv.DictReader(handle)}


def _sentence(row: dict[str, str]) -> str:
    first, second = (_taken(float(row[f"seconds, {size}"])) for size in ("small", "large"))
    return (
        f"**Cost.** {row['order']}, with {row['size is']}. Measured: {first} for {row['small']}, "
        f"{second} for {row['large']}, so it grows as n to the power {row['exponent']} between them."
    )


def _taken(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds * 1e6:.2g}'):g} µs"


def add_cost(_app: Sphinx, what: str, name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Append the sentence to the docstring of a function of the toolbox."""
    sentence = costs().get(name.rpartition(".")[2]) if name.startswith("toposcope") else None
    if what == "function" and sentence is not None:
        lines += ["", sentence, ""]


def setup(app: Sphinx) -> dict[str, object]:
    """Append after numpydoc (which has priority 500) has put the sections in order."""
    app.connect("autodoc-process-docstring", add_cost, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
