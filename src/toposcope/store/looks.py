"""Small sketches of checkpoints that are gone after they were measured, kept in the store by run and step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from toposcope.core.types import Checkpoint
from toposcope.store import parts

FOLDER = "looks"


def look_file(store: Path, at: Checkpoint, content: str) -> Path:
    """Return where the sketch of a checkpoint with this content hash lies."""
    return store / FOLDER / f"{parts.slug(at.run)}.{at.step:09d}.{content[:16]}.parquet"


def write_look(store: Path, at: Checkpoint, content: str, sketch: np.ndarray) -> None:
    """Keep the sketch of a checkpoint, float32."""
    table = pa.table({"sketch": sketch.astype(np.float32)})
    parts.write_atomically(table, look_file(store, at, content), {})


def read_look(store: Path, at: Checkpoint, content: str) -> np.ndarray | None:
    """Return the sketch of a checkpoint; None where none is kept or its file is damaged."""
    path = look_file(store, at, content)
    return pq.read_table(path)["sketch"].to_numpy() if parts.is_whole(path) else None
