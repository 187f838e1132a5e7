"""`toposcope explain`: what a code in an answer means."""

from __future__ import annotations

from dataclasses import asdict

import click

from toposcope.cli.output import json_option, print_json, print_table, say


@click.command("explain")
@click.argument("code", required=False)
@json_option
def command(code: str | None, as_json: bool) -> int:
    """Say what CODE in an answer means, how often it is wrong, and what to do.

    CODE is the name of a rule, of an alarm or of a finding, as `check`, `watch` and `audit` print it or give
    it in `--json` (`kind`, `test`, `fault`): "loss spike", rescaled-tensor. Without CODE, all are listed.
    """
    from toposcope.watch.explained import explain, explanations

    if code is None:
        rows = explanations()
        if as_json:
            print_json([asdict(row) for row in rows])
        else:
            cells = [(row.code, row.said_by, row.what) for row in rows]
            print_table("Codes", ("code", "said by", "what it is"), cells)
        return 0
    explanation = explain(code)
    if as_json:
        print_json(asdict(explanation))
    else:
        for line in str(explanation).splitlines():
            say(line)
    return 0
