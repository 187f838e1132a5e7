"""The answer of `cloud`: whether there is a ring, the evidence for it, and other properties of the cloud."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.clouds.nulls import NULLS
from toposcope.clouds.ring import LEVEL, STATISTICS
from toposcope.core.answered import Tables, answered
from toposcope.core.forms import listed, probability
from toposcope.topology.summaries import summaries

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.clouds.cycle import RingPlane
    from toposcope.clouds.power import RingPower
    from toposcope.clouds.ring import RingTest
    from toposcope.core.types import Diagram
    from toposcope.study.findings import Finding
    from toposcope.topology.dimension import DimensionEstimate

ENOUGH = 0.8
"""Power below which a test that found nothing cannot tell."""
RING, NONE, UNKNOWN = "ring", "no ring shown", "cannot tell"
_STATISTICS = {"ratio": "death / birth", "contrast": "how far it stands above the cloud's other loops"}
_ROWS = 12
"""The most points of the loop that are named in the text; `answer.json` has all."""
_SHORT = {"ratio": "death / birth", "contrast": "above the rest"}


@dataclass(frozen=True)
class RingAnswer:
    """Whether a cloud has a ring: printed, it begins with the answer.

    `name` is the name of the cloud, `shape` its numbers of rows and columns, and `rows` the rows that were
    used. `seed` is the seed of their draw and of the nulls. `diagrams` are H0 and H1, whose cycles are
    indices of `rows`. `test` is the ring test, and `power` its power for a circle with as many distinct
    points. `plane` is the plane of the longest bar. `dimensions` are the estimates of the intrinsic
    dimension, and `refused` are the estimates that this cloud does not allow, with the reason.
    """

    name: str
    shape: tuple[int, int]
    rows: np.ndarray
    seed: int
    diagrams: tuple[Diagram, ...]
    test: RingTest
    power: RingPower | None
    plane: RingPlane
    dimensions: Mapping[str, DimensionEstimate]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return "ring", "no ring shown" or "cannot tell"."""
        if self.test.found:
            return RING
        return NONE if self.power is not None and self.power.share >= ENOUGH else UNKNOWN

    @property
    def line(self) -> str:
        """The answer in one line."""
        test, sure = self.test, f"p = {probability(self.test.largest_p)}, {self.test.draws:,} draws"
        if self.verdict == RING:
            times = f"is {test.ratio / test.most_allowed:.2g} x the limit of clouds without a ring"
            return f"Ring: yes; its longest loop (H1 bar) {times} ({sure}, false rings <= {LEVEL:.0%})."
        reason = f"a loop (H1 bar) this long also occurs in clouds without a ring ({sure})"
        if not test.bars:
            reason = "there is no loop (H1 bar) at all"
        if self.verdict == NONE:
            return f"Ring: none shown; {reason}."
        return f"Ring: cannot tell (too few points: {self._found()}); {reason}."

    def _found(self) -> str:
        power = self.power
        if power is None:
            return "one dimension has no circle"
        return f"power {power.share:.0%} for a circle with noise {power.noise:.2g}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, its ground, the place of the bar, the cloud's properties, and the test's limits."""
        return (self.line, *self._ground(), *self._place(), self._cloud(), *_LIMITS)

    def _ground(self) -> list[str]:
        test, reasons = self.test, []
        if test.bars:
            null, statistic = test.hardest
            reasons.append(
                f"Reason: the loop closes (death) at {test.ratio:.3g} times the distance at which it "
                "appears (birth); one in twenty clouds without a "
                f"ring exceeds {test.most_allowed:.3g}. The strictest comparison: {NULLS[null]}, by "
                f"{_STATISTICS[statistic]}."
            )
        if (power := self.power) is not None:
            reasons.append(
                f"Power: the test finds {power.share:.0%} (95%: {power.low:.0%} to {power.high:.0%}) of "
                f"{power.circles} simulated circles of {power.points:,} points in {power.dimensions} "
                f"dimensions, each point about {power.noise:.2g} radii from its circle."
            )
        return reasons

    def _place(self) -> list[str]:
        plane = self.plane
        if not len(plane.cycle):
            return []
        named = listed([str(row) for row in self.rows[plane.cycle]], most=_ROWS, last=" and ")
        return [
            f"Place: the loop passes through {len(plane.cycle):,} points, in order the rows {named}; the "
            "first row is 0. Its plane carries "
            f"{plane.share:.0%} of the variance, its radius is {plane.radius:.3g}, and the "
            f"cloud lies {plane.noise:.2g} radii from the circle."
        ]

    def _cloud(self) -> str:
        n, d = self.shape
        drawn = "" if len(self.rows) == n else f", of which {len(self.rows):,} were drawn (seed {self.seed})"
        if self.power is not None and self.power.points < len(self.rows):
            drawn += f", {self.power.points:,} of them distinct"
        estimates = ", ".join(
            f"{name} {estimate.value:.2g} (95%: {estimate.low:.2g} to {estimate.high:.2g})"
            for name, estimate in self.dimensions.items()
        )
        dimension_text = f"; intrinsic dimension: {estimates}" if estimates else ""
        bars = f"{self.test.bars} loops (H1 bars)"
        return f"Cloud: {self.name}, {n:,} points in {d:,} dimensions{drawn}; {bars}{dimension_text}."

    @property
    def tables(self) -> Tables:
        """Each null and statistic ("nulls"), the places in the plane ("points"), "summaries", "diagrams"."""
        return Tables(
            nulls=self._nulls, points=self._points, summaries=self._summaries, diagrams=self.diagram_table
        )

    def compared(self) -> list[tuple[str, str, float, float, float]]:
        """Return the table that is printed: a line for each random cloud and each measure."""
        return [
            (row["what"], _SHORT[row["statistic"]], row["cloud"], row["allowed"], row["p"])
            for row in self._nulls().to_dict("records")
        ]

    def _nulls(self) -> pd.DataFrame:
        import pandas as pd

        cloud_values = {"ratio": self.test.ratio, "contrast": self.test.contrast}
        rows = [
            {
                "null": null, "what": label, "statistic": statistic, "cloud": cloud_values[statistic],
                "allowed": self.test.allowed[null, statistic], "p": self.test.p[null, statistic],
                "draws": self.test.draws,
            }
            for null, label in NULLS.items()
            for statistic in STATISTICS
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def _points(self) -> pd.DataFrame:
        import pandas as pd

        place = np.full(len(self.rows), -1)
        place[self.plane.cycle] = np.arange(len(self.plane.cycle))
        return pd.DataFrame(
            {
                "row": self.rows, "x": self.plane.places[:, 0], "y": self.plane.places[:, 1],
                "angle": self.plane.angles, "on_cycle": place,
            }
        )  # fmt: skip

    def _summaries(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([{"dim": diagram.dim, **summaries(diagram)} for diagram in self.diagrams])

    def diagram_table(self) -> pd.DataFrame:
        """Return every bar: dim, birth, death."""
        import pandas as pd

        bars = np.concatenate([diagram.triples() for diagram in self.diagrams])
        return pd.DataFrame({"dim": bars[:, 2].astype(np.int64), "birth": bars[:, 0], "death": bars[:, 1]})

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether there is a ring, in numbers."""
        from toposcope.study.findings import Finding

        return (Finding("ring", self.verdict, self.to_dict(), test="the largest p-value over four nulls"),)

    @property
    def title(self) -> str:
        """The title of the figure: the finding in a few words."""
        sure = f"p = {probability(self.test.largest_p)}"
        if self.verdict == RING:
            return f"A ring ({self.test.ratio / self.test.most_allowed:.2g} x its nulls, {sure})"
        return f"No ring shown ({sure})" if self.verdict == NONE else "Ring: cannot tell"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the points in the plane of the longest bar, with its cycle, and return the axes."""
        from toposcope.clouds.figure import draw_plane

        return draw_plane(self.plane, self.title, ax)

    def figure(self) -> Figure:
        """Draw the plane of the longest bar beside the ratios that the nulls reach."""
        from toposcope.clouds.figure import ring_figure

        return ring_figure(self.plane, self.test, self.title)

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Write ring.png, ring.svg, diagrams.parquet and answer.json into a folder; return the paths.

        Everything is made before the first file is written.
        """
        from toposcope.core.drawing.style import to_png, to_svg
        from toposcope.core.outputs import for_writing

        folder = Path(folder).expanduser()
        figure = self.figure()
        files = {"ring.svg": to_svg(figure), "ring.png": to_png(figure)}
        files["diagrams.parquet"] = self.diagram_table().to_parquet(index=False)
        files["answer.json"] = json.dumps(finite(self.to_dict()), indent=2, allow_nan=False).encode()
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            aside = folder / f".{name}.part"
            for_writing(aside).write_bytes(content)
            aside.replace(for_writing(folder / name))
        return tuple(folder / name for name in files)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the points and diagrams as plain data."""
        test, plane, power = self.test, self.plane, self.power
        return {
            "answer": self.line, "verdict": self.verdict, "p": test.largest_p, "level": LEVEL,
            "cloud": self.name, "points": self.shape[0], "dimensions": self.shape[1],
            "taken": len(self.rows), "draws": test.draws, "seed": self.seed,
            "bar": {"birth": test.birth, "death": test.death, "ratio": test.ratio, "contrast": test.contrast},
            "bars": test.bars, "allowed": test.most_allowed,
            "nulls": self._nulls().to_dict("records"),
            "power": None if power is None else {
                "share": power.share, "low": power.low, "high": power.high, "noise": power.noise,
                "circles": power.circles,
            },
            "plane": {
                "cycle": self.rows[plane.cycle].tolist(), "radius": plane.radius, "share": plane.share,
                "noise": plane.noise, "origin": plane.origin.tolist(), "axes": plane.axes.tolist(),
            },
            "intrinsic_dimension": {
                name: {"value": dim.value, "low": dim.low, "high": dim.high, "points": dim.n}
                for name, dim in self.dimensions.items()
            },
            "refused": dict(self.refused),
            "summaries": {f"H{diagram.dim}": summaries(diagram) for diagram in self.diagrams},
            "limits": list(_LIMITS),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Return the answer, its ground, and its limits."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return answered(repr(self), self._nulls(), self.plot)


_LIMITS = (
    "Limits: clusters that are arranged in a ring count as a ring. A ring with a small share of the variance "
    "is not seen, so project the points first. On curved surfaces false rings are more frequent than 5%.",
)


def finite(value: Any) -> Any:
    """Return plain data for strict JSON: NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
