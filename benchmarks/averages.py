"""Averages of the last checkpoints: does the window that half of the texts choose do as well as the best.

    python -m benchmarks.averages DATA WIKITEXT [KIND [LAST]]

DATA holds runs of the recipe seed004, a folder each; WIKITEXT is a folder with wiki.valid.tokens. For each
run, windows of 1 to LAST (20) checkpoints are scored. One half of the sequences chooses a window, and the
other says whether it pays; where it does not, the newest checkpoint stays. On that other half the decision is
compared, in pairs, with the window that is best there. A run passes if that interval reaches 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.stats import t

from toposcope.api.averaging import UNIFORM, _losses, chosen, compared
from toposcope.api.text_request import TextRequest
from toposcope.sources import open_series


def main(data: str, texts: str, kind: str = UNIFORM, last: str = "20") -> None:
    """Print a line for each run."""
    request = TextRequest(texts=texts, recipe="seed004")
    print("run,kind,chosen,less newest,from,to,decision,best of all,decision less best,from,to,passes")
    for folder in sorted(path for path in Path(data).iterdir() if path.is_dir()):
        series = open_series(str(folder), logs=False)
        newest_first = series.of_run(series.names[0])[::-1][: int(last)]
        losses = _losses(series, newest_first, request, 1.0 if kind == UNIFORM else 0.8)
        assert losses is not None
        windows = compared(losses)
        one = windows[chosen(windows) - 1]
        decision = one.window if one.upper < 0 else 1
        judging = losses[:, losses.shape[1] // 2 :]
        best = int(judging.mean(axis=1).argmin())
        worse = judging[decision - 1] - judging[best]
        reach = t.ppf(0.975, len(worse) - 1) * worse.std(ddof=1) / np.sqrt(len(worse))
        print(
            f"{folder.name},{kind},{one.window},{one.difference:+.4f},{one.lower:+.4f},{one.upper:+.4f},"
            f"{decision},{best + 1},{worse.mean():+.5f},{worse.mean() - reach:+.5f},"
            f"{worse.mean() + reach:+.5f},{worse.mean() - reach <= 0}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
