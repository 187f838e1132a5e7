"""The tables of a store: their columns and types, and the schema version against which stores are checked."""

from __future__ import annotations

import pyarrow as pa

# Raised when the tables change so that an older or newer toposcope would misread them; both refuse others.
SCHEMA_VERSION = 2

_text = pa.string()
_number = pa.float64()

RUNS = pa.schema(
    [
        ("run", _text),
        ("family", _text),
        ("parameters", pa.int64()),
        ("seed", pa.int64()),
        ("schedule", _text),
        ("corpus", _text),
        ("uri", _text),
        ("config", _text),  # JSON
    ]
)

METRICS = pa.schema(
    [
        ("run", _text),
        ("step", pa.int64()),
        ("tokens", pa.int64()),
        ("loss", _number),  # training minibatch, nats per token
        ("heldout_loss", _number),  # fixed held-out batches; null between checkpoints
        ("learning_rate", _number),
        ("grad_norm", _number),
        ("weight_norm", _number),
        ("seconds", _number),
    ]
)

FEATURES = pa.schema(
    [
        ("run", _text),
        ("step", pa.int64()),
        ("tokens", pa.int64()),
        ("probe", _text),
        ("scope", _text),
        ("name", _text),
        ("role", _text),
        ("layer", pa.int32()),
        ("head", pa.int32()),
        ("filtration", _text),
        ("draw", pa.int32()),
        ("feature", _text),
        ("value", _number),
        ("status", _text),
        ("note", _text),
        ("seconds", _number),  # of the whole unit, so that a sum over rows means nothing
        ("content_hash", _text),
        ("recipe_hash", _text),
    ]
)

DIAGRAMS = pa.schema(
    [
        ("run", _text),
        ("step", pa.int64()),
        ("tokens", pa.int64()),
        ("probe", _text),
        ("scope", _text),
        ("name", _text),
        ("role", _text),
        ("layer", pa.int32()),
        ("head", pa.int32()),
        ("filtration", _text),
        ("draw", pa.int32()),
        ("dim", pa.int32()),
        ("birth", pa.list_(_number)),
        ("death", pa.list_(_number)),
        ("n_vertices", pa.int64()),
        ("truncated_at", _number),
        ("content_hash", _text),
        ("recipe_hash", _text),
    ]
)

AUDIT = pa.schema(
    [
        ("uri", _text),
        ("run", _text),
        ("step", pa.int64()),
        ("fault", _text),
        ("tensor", _text),
        ("message", _text),
        ("count", pa.int64()),
        ("runs", pa.list_(_text)),
        ("steps", pa.list_(pa.int64())),
        ("tensors", pa.list_(_text)),
    ]
)

CATALOGUE = pa.schema(
    [
        ("probe", _text),
        ("feature", _text),
        ("label", _text),
        ("unit", _text),
        ("kind", _text),
        ("null_of", _text),
        ("primary", pa.bool_()),
        ("description", _text),
        ("scopes", pa.list_(_text)),
        ("filtrations", pa.list_(_text)),
        ("aggregate", _text),
        ("excess_of", _text),
        ("per_log_step_of", _text),
        ("target", _text),
        ("log_target", pa.bool_()),
        ("about", _text),
        ("leads", pa.list_(_text)),  # "change=1": a use and the place in it
    ]
)

COMPANIONS = "companions"
"""The folder with the columns beside the losses of runs, under the names of their logs: no fixed table."""
REPLACED = "replaced"
"""The folder with the rows of logs that restarts replaced, with the columns of the metrics."""
TABLES = {
    "runs": RUNS,
    "metrics": METRICS,
    "features": FEATURES,
    "diagrams": DIAGRAMS,
    "audit": AUDIT,
    "catalogue": CATALOGUE,
}
