"""The loss history of a run folder that `toposcope train` wrote: parquet parts in its folder `metrics`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pandas as pd

from toposcope.files.blobs import Blob, Folder, LocalBlob
from toposcope.logs.dialects.tables import parquet
from toposcope.logs.metrics import tidy
from toposcope.store.parts import is_part


def parquet_parts(folder: Folder, run: str) -> pd.DataFrame:
    """Read the parquet parts of a toposcope run's `metrics` folder, again only those that have changed."""
    parts = [_part(folder.open(name)) for name in folder.files() if is_part(name)]
    return tidy(pd.concat(parts), run) if parts else tidy([], run)


def _part(blob: Blob) -> pd.DataFrame:
    return _local_part(blob.path, blob.stamp) if isinstance(blob, LocalBlob) else parquet(blob)


@lru_cache(maxsize=1024)  # of some kB each; a run in training adds one at every checkpoint
def _local_part(path: Path, stamp: str) -> pd.DataFrame:
    return parquet(LocalBlob(path))
