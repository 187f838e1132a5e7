"""Write simulated runs as run folders, which every command reads like those of trained runs."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from toposcope import __version__
from toposcope.core.errors import InputError
from toposcope.core.types import RunRecord
from toposcope.core.wording import option
from toposcope.sources.layout import RunFolder, write_bytes, write_run, write_text
from toposcope.store.schema import METRICS
from toposcope.synthetic.runs import SyntheticRecipe, SyntheticRun


def write_family(folder: Path, recipe: SyntheticRecipe, run: SyntheticRun) -> Path:
    """Write one run below `folder`, and return its run folder.

    Raises
    ------
    InputError
        If the run's folder is not empty.
    """
    target = RunFolder(folder / run.run)
    if target.path.exists() and any(target.path.iterdir()):
        raise InputError(
            f"{target.path} exists and is not empty; choose another {option('out')} or delete it"
        )
    spectrum = recipe.spectrum
    config: dict[str, object] = {
        "model": "random features", "a": spectrum.a, "b": spectrum.b, "modes": spectrum.modes,
        "width": run.width, "data": recipe.data, "noise": recipe.noise, "batch": recipe.batch,
        "steps": recipe.steps,
        "schedule": recipe.schedule, "peak_learning_rate": recipe.learning_rate, "outputs": recipe.outputs,
        **{f"{name}_exponent": value for name, value in spectrum.exponents().items()},
    }  # fmt: skip
    if not run.parameters:
        config["parameters"] = 0
    described = RunRecord(
        run=run.run, family=f"random features a={spectrum.a:g} b={spectrum.b:g}", parameters=run.parameters,
        seed=run.seed, schedule=f"{recipe.schedule} {recipe.learning_rate:g} over {recipe.steps} steps",
        corpus="synthetic", uri=str(target.path), config=config,
    )  # fmt: skip
    for step, tensors in run.weights.items():
        row = run.metrics.iloc[step]
        heldout, tokens = float(row["heldout_loss"]), int(row["tokens"])
        metadata = {"step": str(step), "tokens": str(tokens), "heldout_loss": repr(heldout)}
        write_bytes(target.checkpoint(step), save(tensors, metadata))
    table = pa.Table.from_pandas(run.metrics, schema=METRICS, preserve_index=False)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_bytes(target.metrics_part(0, recipe.steps + 1), buffer.getvalue())
    write_text(target.recipe_file, _toml(config))
    write_run(target, described, extra={"versions": {"toposcope": __version__}})
    return target.path


def _toml(config: dict[str, object]) -> str:
    quoted = {key: f'"{value}"' if isinstance(value, str) else value for key, value in config.items()}
    return "".join(f"{key} = {value}\n" for key, value in quoted.items())
