"""Averages of the last checkpoints: does the window that half of the texts choose do as well as the best.

    python -m benchmarks.averages DATA WIKITEXT [KIND [LAST]]

DATA holds runs of the recipe seed004, a folder each; WIKITEXT is a folder with wiki.valid.tokens. For each
run, windows of 1 to LAST (20) checkpoints are scored on 512 texts. The first 256 decide as the command does:
the window with the lowest loss, or the newest checkpoint if choosing does not pay. On the last 256 the
decision is held against the window that is best there: is its difference from the newest checkpoint within
the interval of the best one's, and does the paired interval of both reach 0?
"""

from __future__ import annotations

import sys
from pathlib import Path

from toposcope.api import averaging
from toposcope.api.averaging import UNIFORM, chosen, gain_of_choosing, paired
from toposcope.sources import open_series
from toposcope.subjects.text_request import TextRequest


def main(data: str, texts: str, kind: str = UNIFORM, last: str = "20") -> None:
    """Print a line for each run."""
    request = TextRequest(texts=texts, recipe="seed004")
    averaging.MOST_SEQUENCES = 512
    print(
        "run,kind,chosen,gain,from,to,decision,its difference,"
        "best on others,its difference,from,to,within,decision less best,from,to,reaches 0"
    )
    for folder in sorted(path for path in Path(data).iterdir() if path.is_dir()):
        series = open_series(str(folder), logs=False)
        newest_first = series.of_run(series.names[0])[::-1][: int(last)]
        losses = averaging._losses(series, newest_first, request, 1.0 if kind == UNIFORM else 0.8)
        assert losses is not None
        deciding, others = losses[:, :256], losses[:, 256:]
        gain, window = gain_of_choosing(deciding), chosen(deciding)
        decision = window if gain.upper < 0 else 1
        best = chosen(others)
        own, other = paired(others[decision - 1] - others[0]), paired(others[best - 1] - others[0])
        worse = paired(others[decision - 1] - others[best - 1])
        print(
            f"{folder.name},{kind},{window},{gain.mean:+.4f},{gain.lower:+.4f},{gain.upper:+.4f},{decision},"
            f"{own.mean:+.5f},{best},{other.mean:+.5f},{other.lower:+.5f},{other.upper:+.5f},"
            f"{own.mean <= other.upper},{worse.mean:+.5f},{worse.lower:+.5f},{worse.upper:+.5f},"
            f"{worse.lower <= 0}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
