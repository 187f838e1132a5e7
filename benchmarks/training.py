"""Train the five models of recipe `seed004` the textbook way and with toposcope, side by side.

    python benchmarks/training.py [--steps 200] [--repeats 3] [--out result.json]

The textbook way is in this file: eager PyTorch with fused attention, default threads, one model after the
other. Both ways are whole processes, start to end; they take turns, so that a busy machine slows both.
toposcope also writes checkpoints, held-out losses and metrics in its time.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMPARED_STEPS = 20
TOLERANCE = 1e-4


def textbook(steps: int, threads: int | None) -> dict[str, list[float]]:
    """Return the loss at every step of every model, trained the textbook way."""
    import torch
    from torch.nn.utils import clip_grad_norm_

    from toposcope.recipes import load_training_recipe
    from toposcope.training.corpus import load_corpus
    from toposcope.training.model import GPT
    from toposcope.training.schedule import learning_rate
    from toposcope.training.shapes import GPTShape, first_values, split
    from toposcope.training.tokens import batch, tokenize

    if threads is not None:
        torch.set_num_threads(threads)
    recipe = load_training_recipe("seed004", {"steps": steps})
    data = tokenize(load_corpus(recipe.corpus), recipe)
    losses: dict[str, list[float]] = {}
    for config in recipe.models:
        shape = GPTShape.in_recipe(config, recipe)
        model = GPT(shape)
        first = split(shape, first_values(shape, seed=recipe.seeds[0], std=recipe.init_std))
        model.load_state_dict({name: torch.from_numpy(value) for name, value in first.items()})
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=recipe.weight_decay)
        losses[config.name] = []
        for step in range(steps):
            tokens = batch(
                data.train, seed=recipe.seeds[0], step=step, size=recipe.batch_size, context=recipe.context
            )
            optimizer.param_groups[0]["lr"] = learning_rate(recipe, step)
            optimizer.zero_grad()
            loss = model.loss(torch.from_numpy(tokens))
            loss.backward()
            clip_grad_norm_(model.parameters(), recipe.gradient_clip)
            optimizer.step()
            losses[config.name].append(loss.item())
    return losses


def timed(command: list[str]) -> tuple[float, float]:
    """Return wall and processor seconds of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def toposcope_losses(out: Path) -> dict[str, list[float]]:
    """Return the loss at every step of every run in `out`."""
    import pyarrow.parquet as pq

    from toposcope.sources.layout import RunFolder, is_run_folder

    losses = {}
    for folder in (RunFolder(path) for path in sorted(out.iterdir()) if is_run_folder(path)):
        parts = [pq.read_table(path, columns=["loss"]) for _, _, path in folder.metrics_parts()]
        model = folder.path.name.rpartition("-seed")[0]
        losses[model] = [loss for part in parts for loss in part.column("loss").to_pylist()]
    return losses


def largest_difference(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> float:
    """Return the largest difference of losses over the compared steps of all models."""
    pairs = [zip(ours[m][:COMPARED_STEPS], theirs[m][:COMPARED_STEPS], strict=True) for m in theirs]
    return max(abs(a - b) for pair in pairs for a, b in pair)


def measure(steps: int, repeats: int, threads: int | None) -> dict[str, object]:
    rows = []
    difference = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-c", "from toposcope.cli.main import main; main()", "train"]
        command += ["--recipe", "seed004"]
        timed(
            [*command, "--steps", "2", "--out", str(folder / "warm")]
        )  # loads what the machine keeps in memory from then on
        for repeat in range(repeats):
            book = timed(
                [sys.executable, __file__, "--textbook", str(folder / "book.json"), "--steps", str(steps)]
            )
            out = folder / f"runs{repeat}"
            ours = timed([*command, "--steps", str(steps), "--out", str(out)])
            theirs = json.loads((folder / "book.json").read_text())
            difference = max(difference, largest_difference(toposcope_losses(out), theirs))
            rows.append(
                {
                    "textbook_seconds": book[0],
                    "toposcope_seconds": ours[0],
                    "textbook_processor_seconds": book[1],
                    "toposcope_processor_seconds": ours[1],
                    "times_faster": book[0] / ours[0],
                    "times_less_processor_time": book[1] / ours[1],
                }
            )
    return {
        "steps": steps,
        "textbook_threads": threads,
        "repeats": rows,
        "times_faster": statistics.median(row["times_faster"] for row in rows),
        "largest_loss_difference": difference,
        "compared_steps": COMPARED_STEPS,
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--threads", type=int, help="threads of the textbook loop (default: torch's own choice)"
    )
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    parser.add_argument("--textbook", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.textbook:
        options.textbook.write_text(json.dumps(textbook(options.steps, options.threads)))
        return 0
    result = measure(options.steps, options.repeats, options.threads)
    columns = list(result["repeats"][0])
    print("  ".join(columns))
    for row in result["repeats"]:
        print("  ".join(f"{row[column]:>{len(column)}.2f}" for column in columns))
    print(
        f"{result['times_faster']:.2f} times faster (median); largest difference of losses over "
        f"{COMPARED_STEPS} steps {result['largest_loss_difference']:.1e} (allowed {TOLERANCE:.0e})"
    )
    text = json.dumps(result, indent=2)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    return 0 if result["largest_loss_difference"] < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
