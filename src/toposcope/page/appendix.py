"""The last sections of every page: problems, audit findings and provenance, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import pandas as pd

import toposcope
from toposcope.core.forms import and_more, plain
from toposcope.core.observations import Observation
from toposcope.core.repeats import together
from toposcope.core.types import COUNTED, Normalization

MOST_LINES = 60
"""Lines of a list (failures, findings) that are printed; the others are only counted."""

_LIBRARIES = ("numpy", "scipy", "pandas", "matplotlib")
_PROVENANCE = {
    "schema_version": "store: schema version",
    "toposcope": "store: written by toposcope",
    "written": "store: created",
    "seed": "seeds of draws",
}


def unmeasured(features: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of measurements that failed, have no meaning, or have not converged."""
    return features[~features["status"].isin(COUNTED)]


def failures(features: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return what could not be measured: (run, step, what, status, why); equal steps share a line.

    Rows share a line, too, if only the tensor and the numbers in their notes differ.
    """
    bad = unmeasured(features).fillna({"note": "", "name": ""})
    same = ["run", "probe", "name", "status", "note"]
    not_measured = []
    for key, rows in bad.drop_duplicates([*same, "step"]).groupby(same, sort=True):
        run, probe, name, status, note = map(str, key)
        steps = tuple(sorted({int(step) for step in rows["step"]}))
        not_measured.append(_Unmeasured(run, steps[0], name, note, len(steps), (), steps, (), probe, status))
    return _cut([failure.line for failure in together(not_measured, _Unmeasured.kind, most=1)])


@dataclass(frozen=True, slots=True)
class _Unmeasured(Observation):
    """What a probe could not measure of a tensor, or of the model, at some steps."""

    probe: str = ""
    status: str = ""

    def kind(self) -> tuple[str, ...]:
        """Return the key that two lines share if they are printed as one; the tensor in a note may differ."""
        about_itself = repr(self.tensor) in self.message
        return self.probe, self.status, "" if about_itself else self.tensor

    @property
    def line(self) -> tuple[str, ...]:
        more = and_more(len(self.steps) - 1)
        what = f"{self.probe}: {self.tensor}" if self.tensor else self.probe
        return self.run, f"{self.step:,}{more}", what, self.status, self.message


def findings(audit: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return what the audit of the checkpoints found: (run, step, fault, tensor, message)."""
    if not len(audit):
        return ()
    shown = audit.reindex(columns=["run", "step", "fault", "tensor", "message"]).drop_duplicates()
    return _cut(
        [tuple("" if pd.isna(cell) else str(cell) for cell in line) for line in shown.itertuples(index=False)]
    )


def provenance(stated: Mapping[str, object], runs: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """Return the origin of a store's numbers, as (what, value) lines."""
    lines = []
    for what, value in stated.items():
        if isinstance(value, dict):
            lines += [(f"{what}: {key}", _spelt(plain(item))) for key, item in value.items()]
        elif value is not None:
            lines.append((_PROVENANCE.get(what, what), plain(value)))
    uris = [str(uri) for uri in runs["uri"].dropna().unique() if uri]
    return (*lines, *(("series", uri) for uri in uris[:MOST_LINES]))


def _spelt(value: str) -> str:
    """Return a setting with the names that the page has for normalizations.

    >>> _spelt("rieck, seed004")
    'by network, by matrix'
    """
    ways = {Normalization.MATRIX: "by matrix", Normalization.NETWORK: "by network"}
    return ", ".join(ways.get(word, word) for word in value.split(", "))  # type: ignore[call-overload]


def versions(libraries: Iterable[str] = _LIBRARIES) -> tuple[tuple[str, str], ...]:
    """Return the versions that wrote the report, as (what, value) lines."""
    lines = [("report written by", f"toposcope {toposcope.__version__}")]
    for name in libraries:
        try:
            lines.append((f"report written with {name}", version(name)))
        except PackageNotFoundError:
            continue
    return tuple(lines)


def _cut(lines: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    rest = len(lines) - MOST_LINES
    return (*lines[:MOST_LINES], (f"and {rest:,} more", *[""] * (len(lines[0]) - 1)))
