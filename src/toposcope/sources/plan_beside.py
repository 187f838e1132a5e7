"""The plan that the trainer's own files beside a log state: Lightning's hparams.yaml, nanoGPT's ckpt.pt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toposcope.sources.blobs import LocalFolder
from toposcope.sources.lightning import METRICS, lightning_facts
from toposcope.sources.nanogpt import facts_beside


def plan_beside(log: Path, *, alone: bool) -> dict[str, Any]:
    """Return what the files beside a log say of its runs, under the names of `Run.config`.

    hparams.yaml speaks for every run of Lightning's metrics.csv, ckpt.pt for a log of one run (`alone`).

    Raises
    ------
    SourceError
        When ckpt.pt is no checkpoint.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "hparams.yaml").write_text("max_steps: 400")
    >>> plan_beside(folder / "metrics.csv", alone=True), plan_beside(folder / "other.csv", alone=True)
    ({'planned_steps': 400}, {})
    """
    folder = LocalFolder(log.resolve().parent)
    facts = lightning_facts(folder) if log.name == METRICS else {}
    return facts or (facts_beside(folder) if alone else {})
