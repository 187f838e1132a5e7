"""`toposcope average`: the average of the last checkpoints, if it lowers the held-out loss."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, print_json, print_table, say
from toposcope.cli.sweeping import STEPS_HELP, device_option, tokenizer_option


@click.command("average")
@click.argument("series", nargs=-1, required=True)
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="New folder of the average: model.safetensors, and the configuration beside the newest checkpoint.  "
    "[default: nothing is written]",
)  # fmt: skip
@click.option("--last", type=int, default=5, show_default=True, help="The largest window of checkpoints.")
@click.option(
    "--kind", type=click.Choice(("uniform", "ema")), default="uniform", show_default=True,
    help="Equal shares, or shares that fall by --decay from each checkpoint to the one before it.",
)  # fmt: skip
@click.option("--decay", type=float, default=0.8, show_default=True, help="Of --kind ema, between 0 and 1.")
@click.option("--run", help="The run to average, if SERIES has several.")
@click.option(
    "--texts", help="Texts for the held-out loss of model folders.  [default: those of a run folder]"
)
@tokenizer_option
@click.option("--recipe", help="Recipe of the architecture, for files that contain only weights.")
@device_option
@click.option("--steps", help=STEPS_HELP)
@click.option("--unscored", is_flag=True, help="Average exactly --last checkpoints, and measure no loss.")
@click.option("--plan", is_flag=True, help="Print what is read and needed, then stop.")
@json_option
def command(
    series: tuple[str, ...],
    out: Path | None,
    last: int,
    kind: str,
    decay: float,
    run: str | None,
    texts: str | None,
    tokenizer: Path | None,
    recipe: str | None,
    device: str,
    steps: str | None,
    unscored: bool,
    plan: bool,
    as_json: bool,
) -> int:
    """Average the last checkpoints of SERIES, and say which window lowers the held-out loss, if one does.

    SERIES are run folders of `toposcope train`, which have their own held-out texts, or model folders with
    --texts: the averages of the last 1, 2, ... checkpoints are compared with the newest checkpoint, in pairs
    over sequences. The best window is written if it pays. Of other checkpoints, exactly the last ones are
    averaged. One tensor is in memory at a time, or, where a loss is measured, the model and its sums.

    The exit code is 0 if a window pays or none was measured, and 1 if none pays: then nothing is written.
    """
    from dataclasses import asdict

    from toposcope.api.averaging import average, average_plan
    from toposcope.subjects.text_request import TextRequest

    request = TextRequest(texts=texts, tokenizer=tokenizer, recipe=recipe, device=device)
    settings = {
        "last": last, "kind": kind, "decay": decay, "run": run, "texts": request, "scored": not unscored,
        "steps": steps,
    }  # fmt: skip
    where = list(series)
    if plan:
        cost = average_plan(where, **settings)  # type: ignore[arg-type]
        print_json({"answer": repr(cost), **asdict(cost)}) if as_json else say(repr(cost))
        return 0
    answer = average(where, out, **settings)  # type: ignore[arg-type]
    if as_json:
        print_json(answer.to_dict())
    else:
        for line in answer.lines:
            say(line)
        rows = [
            (window.window, window.loss, window.difference, window.lower, window.upper)
            for window in answer.windows
        ]
        if rows:
            print_table(
                "Average of the last checkpoints", ("window", "loss", "less newest", "from", "to"), rows
            )
    return 0 if answer.ok else 1
