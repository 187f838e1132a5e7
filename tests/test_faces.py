"""The Python face: pictures in notebooks, stores that open, errors in Python's words, public topology."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
import types

import gudhi
import matplotlib as mpl
import numpy as np
import pandas as pd
import persim
import pytest
from gudhi.representations import Landscape, PersistenceImage, Silhouette
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.stats import entropy

import toposcope as ts
from toposcope.api import TextRequest
from toposcope.core.errors import InputError
from toposcope.core.wording import command, option, typed_options
from toposcope.sweep import Execution

WEIGHTS = {step: {"fc.weight": np.random.default_rng(step).normal(size=(6, 5))} for step in (0, 10)}


PLOTS = (
    "ts.analyze(frame).plot()",
    "ts.rips(np.random.default_rng(0).normal(size=(9, 2)))[1].plot()",
    "ts.compare(w[0], w[10]).plot()",
    "ts.forecast(frame, horizon=6000).plot()",
    "(ts.rips(w[0]['fc.weight'])[0].plot(), None)[1]",
)
"""What cells end with; the last one plots amid its cell."""
KERNEL = """
import json, sys, types
events = types.SimpleNamespace(register=lambda name, call: None)
shell = types.SimpleNamespace(kernel=object(), events=events, enable_gui=lambda gui=None: None)
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell, version_info=(9, 0, 0))
import matplotlib, numpy as np, pandas as pd, toposcope as ts
step = np.arange(0, 3000, 100)
frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3, "mine": np.log(step + 50.0)})
w = {s: {"fc.weight": np.random.default_rng(s).normal(size=(6, 5))} for s in (0, 10)}
for source in json.loads(sys.argv[1]):
    last = eval(source)
    shown = []
    for name in ("_repr_png_", "_repr_html_"):
        method = getattr(last, name, None)
        shown += [name] * bool(callable(method) and method())
    import matplotlib.pyplot as plt
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
        shown += ["pyplot"] * (matplotlib.get_backend().lower() != "agg")
    plt.close("all")
    print(*shown)
"""


def displayed(sources: tuple[str, ...]) -> list[list[str]]:
    """Return what a notebook shows of cells that end in `sources`, run in a fresh process.

    A kernel is simulated as far as display goes: IPython with a kernel; a backend that, like the inline one,
    shows pyplot's figures after each cell and closes them; and IPython's lookup of `_repr_*_`.
    """
    call = [sys.executable, "-c", KERNEL, json.dumps(sources)]
    done = subprocess.run(call, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


ENVIRONMENT: dict[str, str] = {}


@pytest.fixture
def backend(tmp_path, monkeypatch):
    """Set the environment of the simulated notebook: a backend of that name."""
    import os

    (tmp_path / "inline_like.py").write_text(
        "from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas\n"
        "from matplotlib.backend_bases import FigureManagerBase as FigureManager\n"
    )

    def chosen(name: str) -> None:
        ENVIRONMENT.clear()
        path = [str(tmp_path), *(p for p in sys.path if p)]
        ENVIRONMENT.update(os.environ, MPLBACKEND=name, PYTHONPATH=os.pathsep.join(path))

    return chosen


@pytest.mark.slow
def test_a_plot_is_shown_once_by_pyplot_where_pyplot_shows_figures(backend):
    backend("module://inline_like")
    assert displayed(PLOTS) == [["pyplot"]] * len(PLOTS)


@pytest.mark.slow
def test_a_plot_at_the_end_of_a_cell_shows_itself_once_where_pyplot_shows_nothing(backend):
    backend("agg")
    assert displayed(PLOTS) == [["_repr_png_"]] * (len(PLOTS) - 1) + [[]]


def test_outside_a_notebook_no_figure_is_pyplots():
    ax = ts.rips(np.random.default_rng(0).normal(size=(9, 2)))[0].plot()
    assert ax._repr_png_()[:4] == b"\x89PNG"
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_a_kernel_whose_backend_writes_files_leaves_the_picture_to_the_axes(monkeypatch):
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    with mpl.rc_context({"backend": "agg"}):
        ax = ts.rips(np.random.default_rng(0).normal(size=(9, 2)))[0].plot()
    assert ax._repr_png_()[:4] == b"\x89PNG"
    assert isinstance(ax.figure.canvas, FigureCanvasAgg)


def test_a_store_is_opened_by_its_path(tmp_path):
    made = ts.measure(WEIGHTS, tmp_path / "store", features="baselines")
    opened = ts.open_store(tmp_path / "store")
    pd.testing.assert_frame_equal(opened.features(), made.features())
    with pytest.raises(InputError, match=r"open a store with toposcope\.open_store\(path\)"):
        ts.Store(tmp_path / "store")
    with pytest.raises(
        InputError, match=r"elsewhere does not exist; a store is made with: `toposcope\.measure\(SERIES, '"
    ):
        ts.open_store(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "name", [n for n in ts.__all__ if n[0].isalpha() and n not in ("topology", "InputError")]
)
def test_every_public_name_has_a_signature(name):
    assert str(inspect.signature(getattr(ts, name))).startswith("(")


@pytest.mark.parametrize("name", ["report", "train"])
def test_help_of_a_package_that_is_called_shows_how(name):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        help(getattr(ts, name))
    signature = inspect.signature(getattr(ts, name))
    shown = said.getvalue().replace("\x08", "")
    assert re.search(rf"{name}\(\s*{next(iter(signature.parameters))}", shown)  # long ones are broken


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda p: ts.open_series(p / "none"), "none"),
        (lambda p: ts.analyze(p / "none"), "toposcope.measure("),
        (lambda p: ts.report(p / "none", p / "out"), "toposcope.measure("),
        (lambda p: ts.forecast(p / "none"), "none"),
        (lambda p: ts.forecast([]), "siblings"),
        (lambda p: ts.analyze(pd.DataFrame({"stepp": [1], "loss": [2.0]})), "rename"),
        (lambda p: ts.measure(WEIGHTS, p / "s", features="gradients"), "texts"),
        (lambda p: ts.measure(WEIGHTS, p / "s", features="representations"), "texts"),
        (lambda p: ts.open_series(p, losses=pd.DataFrame({"a": [1]})), "rename"),
        (lambda p: ts.forecast(pd.DataFrame({"step": [1], "los": [2.0]})), "column"),
    ],
)
def test_errors_of_calls_name_arguments_and_calls(call, word, tmp_path):
    with pytest.raises(InputError) as caught:
        call(tmp_path)
    assert "--" not in str(caught.value)
    assert word in str(caught.value)


def _advice() -> str:
    return (
        f"x; run: {command('weights', 'SERIES', out='runs')} or {command('merge', 'A', 'B', out='my C')}, "
        f"or {option('range')} 2, or {command('watch', 'DIR', out='x')}"
    )


def test_a_text_is_in_the_spelling_of_its_reader():
    in_python = _advice()
    assert "--" not in in_python
    assert "toposcope.measure(SERIES, 'runs')" in in_python
    assert "from toposcope.store.merge import merge; merge(['A', 'B'], 'my C')" in in_python
    assert in_python.endswith("or `range` 2, or the command toposcope watch")
    with typed_options():
        assert _advice() == (
            "x; run: toposcope weights SERIES --out runs or toposcope merge A B --out 'my C', or --range 2, "
            "or toposcope watch DIR --out x"
        )


@pytest.mark.parametrize(
    ("features", "given", "name"),
    [
        ("baselines", {"device": "cuda", "texts": "nothere.txt", "recipe": "nope"}, "texts"),
        ("baselines", {"device": "cuda"}, "device"),
        ("rips,baselines", {"limit": 4}, "limit"),
        ("baselines", {"recipe": "nope"}, "recipe"),
        ("baselines", {"tokenizer": "t"}, "tokenizer"),
        ("baselines", {"texts": TextRequest(min_chars=3)}, "min_chars"),
        ("gradients", {"recipe": "demo"}, "recipe"),
        ("landscape", {"preset": "seed004"}, "preset"),
        ("surface", {"limit": 3}, "limit"),
        ("representations", {"recipe": "demo", "texts": "t.txt"}, "recipe"),
        ("baselines", {"execution": Execution(), "jobs": 2}, "jobs"),
        ("baselines", {"execution": Execution(), "diagrams": True}, "diagrams"),
    ],
)
def test_measure_refuses_what_means_nothing_for_what_is_measured(features, given, name, tmp_path):
    with pytest.raises(InputError, match=rf"^{name} ") as caught:
        ts.measure(WEIGHTS, tmp_path / "store", features=features, **given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "store").exists()


def _diagram(seed: int, n: int = 25) -> np.ndarray:
    draw = np.random.default_rng(seed)
    birth = draw.uniform(0, 2, n)
    return np.column_stack([birth, birth + draw.exponential(0.5, n)])


@pytest.mark.slow
def test_public_topology_agrees_with_gudhi_and_persim():
    a, b = _diagram(0), _diagram(1, 18)
    assert ts.topology.bottleneck(a, b) == pytest.approx(gudhi.bottleneck_distance(a, b))
    assert ts.topology.bottleneck(a, b) == pytest.approx(persim.bottleneck(a, b))
    from gudhi.hera import wasserstein_distance

    for order in (1, 2):
        for ground, norm in (("l2", 2.0), ("linf", np.inf)):
            wanted = wasserstein_distance(a, b, order=order, internal_p=norm, delta=1e-9)
            assert ts.topology.wasserstein(a, b, order=order, ground=ground) == pytest.approx(
                wanted, rel=1e-6
            )
    length = a[:, 1] - a[:, 0]
    assert ts.topology.persistent_entropy(a) == pytest.approx(entropy(length))
    grid = ts.topology.common_grid([a])
    assert grid[[0, -1]].tolist() == [a.min(), a.max()]
    known = Landscape(num_landscapes=5, resolution=100, sample_range=[a.min(), a.max()])(a).reshape(5, 100)
    np.testing.assert_allclose(ts.topology.landscape(a) * np.sqrt(2), known, atol=1e-9)
    known = Silhouette(weight=lambda p: p[1] - p[0], resolution=100, sample_range=[a.min(), a.max()])(a)
    np.testing.assert_allclose(ts.topology.silhouette(a) * np.sqrt(2), known, atol=1e-9)
    births, lengths = np.linspace(a[:, 0].min(), a[:, 0].max(), 20), np.linspace(0, length.max(), 20)
    width = max(np.diff(births).max(), np.diff(lengths).max())
    made = PersistenceImage(
        bandwidth=width, weight=lambda p: p[1], resolution=[20, 20],
        im_range=[births[0], births[-1], lengths[0], lengths[-1]],
    )(a)  # fmt: skip
    np.testing.assert_allclose(ts.topology.persistence_image(a).ravel(), made, rtol=1e-6)
    with pytest.raises(InputError, match="birth_grid is not given"):
        ts.topology.persistence_image(np.empty((0, 2)))


def test_persim_plots_what_rips_returns():
    import matplotlib.pyplot as plt

    figure = plt.figure()
    try:
        persim.plot_diagrams(ts.rips(np.random.default_rng(0).normal(size=(20, 2))), ax=figure.subplots())
        assert len(figure.axes[0].collections) == 2
    finally:
        plt.close(figure)


def test_every_public_function_of_topology_has_help_with_an_example():
    for name in ts.topology.__all__:
        value = getattr(ts.topology, name)
        if inspect.isclass(value):
            continue
        assert str(inspect.signature(value)).startswith("("), name
        text = inspect.getdoc(value) or ""
        assert text.split("\n\n")[0].endswith((".", ":")), name
        assert ">>>" in text, name
