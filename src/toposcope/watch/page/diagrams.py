"""The stored persistence diagrams: a list of them, and one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from toposcope.store import parts
from toposcope.store.schema import DIAGRAMS
from toposcope.study.catalogue import SPELT

MOST_BARS = 2000
"""The largest number of bars of a diagram that are sent to a browser, longest first."""

_NAMED = ("run", "step", "probe", "filtration", "name")


@dataclass(frozen=True, slots=True, order=True)
class Cloud:
    """The object of a diagram, without the step."""

    run: str
    probe: str
    filtration: str
    name: str

    @property
    def title(self) -> str:
        """The object in words.

        >>> Cloud("a", "neural_persistence", "seed004", "layers.0.mlp.weight").title
        'layers.0.mlp.weight (neural persistence, by matrix)'
        """
        filtration = SPELT.get(self.filtration, self.filtration)
        text = ", ".join(part for part in (self.probe.replace("_", " "), filtration) if part)
        return f"{self.name or 'model'} ({text})"


class StoredDiagrams:
    """An index of the stored diagrams; `visit` updates it, `diagram` reads one."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "diagrams"
        self._seen: dict[Path, int] = {}
        self.steps: dict[Cloud, dict[int, Path]] = {}
        """For every cloud, the stored steps and their files."""

    def visit(self) -> None:
        """Read the names in new files; for a step in several files, the latest file counts."""
        live = parts.scan(self._folder)
        if set(self._seen) - {part.path for part in live}:  # compacted: the file names have changed
            self._seen, self.steps = {}, {}
        for part in sorted(live, key=lambda part: part.written):
            if self._seen.get(part.path) == part.written:
                continue
            try:
                table = parts.read_whole(part.path, list(_NAMED)).to_pydict()
            except FileNotFoundError:
                continue
            self._seen[part.path] = part.written
            for run, step, probe, filtration, name in zip(*(table[key] for key in _NAMED), strict=True):
                self.steps.setdefault(Cloud(run, probe, filtration or "", name or ""), {})[step] = part.path

    def listed(self, run: str) -> list[dict[str, Any]]:
        """Return the clouds of a run with the steps at which each is stored."""
        return [
            {
                "probe": cloud.probe,
                "filtration": cloud.filtration,
                "name": cloud.name,
                "title": cloud.title,
                "steps": sorted(steps),
            }
            for cloud, steps in sorted(self.steps.items())
            if cloud.run == run
        ]

    def diagram(self, cloud: Cloud, step: int) -> dict[str, Any] | None:
        """Return the longest bars of one diagram by dimension; None if it is not, or no longer, stored.

        Of several draws, the first is shown. Bars that never die have death None.
        """
        path = self.steps.get(cloud, {}).get(step)
        if path is None:
            return None
        test = (pc.field("step") == step) & (pc.field("run") == cloud.run)
        try:
            table = parts.read([parts.Part(path, "", "")], DIAGRAMS, test).to_pandas()
        except FileNotFoundError:
            return None
        table = table[
            (table["name"].fillna("") == cloud.name) & (table["filtration"].fillna("") == cloud.filtration)
        ]
        table = table.sort_values("draw", na_position="first").drop_duplicates("dim")
        dims = []
        for dim, birth, death in table[["dim", "birth", "death"]].sort_values("dim").itertuples(index=False):
            longest = np.argsort(-np.where(np.isfinite(death), np.abs(death - birth), np.inf), kind="stable")
            shown = longest[:MOST_BARS]
            deaths = [float(d) if np.isfinite(d) else None for d in death[shown].tolist()]
            dims.append(
                {"dim": int(dim), "birth": birth[shown].tolist(), "death": deaths, "bars": len(birth)}
            )
        return {"step": step, "dims": dims, "of": cloud.title}
