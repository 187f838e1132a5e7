"""Rows of measurements as a Markdown table and as a log-log figure of cost against size."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

_COLUMNS = 3


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows as Markdown, grouped; a case without a result shows why."""
    lines = [
        "| what | size | method | time | times its floor | extra peak MB |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        head = f"| {row['group']} | {row['label']} | {row['method']} |"
        if "reason" in row:
            lines.append(f"{head} {row['reason']} | | |")
            continue
        ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else ""
        lines.append(f"{head} {duration(row['seconds'])} | {ratio} | {row['peak_mb']:.0f} |")
    return "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """Return a duration with its unit.

    >>> duration(0.00123)
    '1.23 ms'
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Draw one panel for each group with several sizes: seconds against size, the floor dashed."""
    done = [row for row in rows if "reason" not in row]
    groups = [
        group
        for group in dict.fromkeys(row["group"] for row in done)
        if len({row["size"] for row in done if row["group"] == group}) > 1
    ]
    if not groups:
        return
    height = -(-len(groups) // _COLUMNS)
    figure, axes = plt.subplots(
        height, _COLUMNS, figsize=(5.2 * _COLUMNS, 3.9 * height), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(groups) :]:
        axis.remove()
    for axis, group in zip(axes.flat, groups, strict=False):
        _panel(axis, group, [row for row in done if row["group"] == group])
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"cost.{suffix}", dpi=130)
    plt.close(figure)


def _panel(axis: Any, group: str, rows: list[dict[str, Any]]) -> None:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for method in methods:
        points = sorted((row["size"], row["seconds"]) for row in rows if row["method"] == method)
        bold = 2.4 if method.startswith("toposcope") else 1.2
        axis.plot(*zip(*points, strict=True), marker="o", ms=4, lw=bold, label=method)
    floors = sorted({row["size"]: row["floor_seconds"] for row in rows if row["floor_seconds"]}.items())
    if floors:
        name = next(row["floor"] for row in rows if row["floor"])
        axis.plot(*zip(*floors, strict=True), color="0.4", ls="--", lw=1.2, label=name)
    axis.set(xscale="log", yscale="log", ylabel="seconds", xlabel=rows[0].get("size_name", "size"))
    axis.set_title(group, fontsize=10)
    sizes = sorted({row["size"] for row in rows})
    axis.set_xticks(sizes, [f"{size:,.0f}" for size in sizes], rotation=25, fontsize=8)
    axis.minorticks_off()
    axis.grid(alpha=0.25, which="both", lw=0.5)
    axis.legend(fontsize=7.5)
