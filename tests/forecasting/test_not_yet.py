"""An end that cannot be forecast yet: every answer refuses it by one rule."""

import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts
from tests.check.written import diverging, falling, modded, write
from toposcope.core.types import RunRecord
from toposcope.store import Store
from toposcope.watch.page.answers import forecasts
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import _forecast


def log(path, steps, seed):
    step = np.arange(1, steps + 1)
    loss = 2 + 6 * step**-0.5 + np.random.default_rng(seed).normal(0, 0.02, steps)
    pd.DataFrame({"step": step, "loss": loss}).to_csv(path, index=False)
    return path


def given(folder):
    """Return three siblings that end at step 400, and a log of the first 5 of 1,000 steps."""
    return [log(folder / f"s{i}.csv", 400, i) for i in range(3)], log(folder / "new.csv", 5, 9)


def test_an_interval_that_says_nothing_is_refused_by_check_and_forecast_alike(tmp_path, call):
    siblings, new = given(tmp_path)
    said = ts.check(new, siblings=siblings, horizon=1000).to_dict()["runs"][0]["forecast"]
    assert said["high"] > 1e6 * said["low"]
    anything = f"its final loss may be anything from {said['low']:.2g} to {said['high']:.2g}"
    assert said["reason"].startswith(anything)
    assert f"it cannot be forecast yet: {anything}" in str(ts.check(new, siblings=siblings, horizon=1000))
    made = ts.forecast(new, siblings=siblings, horizon=1000)
    assert repr(made).splitlines()[-1] == f"new cannot be forecast yet: {anything}"
    options = [part for path in siblings for part in ("--siblings", path)]
    _, out, _ = call(new, *options, "--horizon", 1000)
    assert "new cannot be forecast yet; " in out
    assert f"I{anything[1:]}" in out
    assert "[" not in out
    _, out, _ = call(new, *options, "--horizon", 1000, "--json")
    first = json.loads(out)["forecasts"][0]
    assert first["reason"].startswith(anything)


def test_of_an_ill_run_no_range_is_recommended(tmp_path, call):
    """The log of a run that rises to twice its loss says where it would end, and promises no coverage."""
    file = write(tmp_path / "a.log", modded(diverging()))
    answer = str(ts.check(file))
    assert "End: it would end near 2.2 without this problem" in answer
    assert "of such intervals contained" not in answer
    _, out, _ = call(file)
    assert "a would end near 2.2 without this problem (" in out
    assert "should end" not in out
    assert "quote" not in out


def test_the_picture_has_no_such_interval(tmp_path):
    siblings, new = given(tmp_path)
    ax = ts.forecast(new, siblings=siblings, horizon=1000).plot(plt.figure().subplots())
    assert not ax.collections
    assert math.isfinite(ax.lines[0].get_xdata()[0])
    plt.close()


def test_the_live_page_asks_the_same_rule(tmp_path):
    siblings, new = given(tmp_path)
    store = Store.create(tmp_path / "store", recipe={"points": 10})
    plans = {**{path.stem: 400 for path in siblings}, new.stem: 1000}
    store.write_runs(RunRecord(name, config={"steps": steps}) for name, steps in plans.items())
    logs = [pd.read_csv(path).assign(run=path.stem) for path in (*siblings, new)]
    store.write_metrics(pd.concat(logs))
    (made,) = forecasts(store.path)
    assert made["run"] == "new"
    assert made["not_yet"].startswith("its final loss may be anything from ")
    assert (made["bounded"], made["step"], made["curve_low"]) == (False, [], [])
    shown = _forecast(Live(store.path), made)
    assert shown["final"] == "cannot be forecast yet"
    assert made["not_yet"] in shown["reason"]


def test_shell_python_and_check_say_the_end_of_a_run_in_one_sentence(tmp_path, call):
    file = write(tmp_path / "a.log", modded(falling()))
    end = ts.check(file).runs[0].end
    assert "end" in end
    _, out, _ = call(file)
    assert out.startswith(f"a {end}, by auto; ")
    assert repr(ts.forecast(file)) == f"a {end}, by auto"
