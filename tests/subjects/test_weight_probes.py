"""Weight probes against closed forms, independent implementations and the weight-space paper's figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from ripser import ripser
from scipy.spatial.distance import pdist, squareform

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, Matrix, Role, Row, Status
from toposcope.sources import open_series
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.shapes import median_distance
from toposcope.subjects.snapshot import BATCH_BYTES, RunReader, batches
from toposcope.subjects.weights._clouds import pooled_draws, row_draws
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.presets import preset
from toposcope.subjects.weights.probes import trajectory
from toposcope.subjects.weights.probes.baselines import Baselines
from toposcope.subjects.weights.probes.distances import Distances
from toposcope.subjects.weights.probes.neural_persistence import NeuralPersistence
from toposcope.subjects.weights.probes.rips import Rips
from toposcope.subjects.weights.probes.trajectory import Trajectory

SHAPES = {
    "token_emb.weight": (30, 8, Role.EMBEDDING, None),
    "layers.0.attn.qkv.weight": (24, 8, Role.ATTENTION, 0),
    "layers.0.mlp.fc1.weight": (32, 8, Role.MLP, 0),
    "layers.0.mlp.fc2.weight": (8, 32, Role.MLP, 0),
    "head.weight": (30, 8, Role.HEAD, None),
}


class Memory:
    """A series in memory; counts how often a checkpoint is read."""

    def __init__(self, steps: Sequence[int], scale: float = 1.0) -> None:
        self.checkpoints = [Checkpoint("run", step, step * 10) for step in steps]
        self.scale = scale
        self.reads: list[int] = []

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        self.reads.append(checkpoint.step)
        generator = np.random.default_rng(checkpoint.step)
        for name, (rows, columns, role, layer) in SHAPES.items():
            values = (self.scale * generator.standard_normal((rows, columns))).astype(np.float32)
            yield Matrix(checkpoint, name, values, role, layer)

    def content_hash(self, checkpoint: Checkpoint) -> str:
        return str(checkpoint.step)


def measure(probe: Probe, series: Memory, index: int = 0) -> Measured:
    return probe.measure(RunReader(series, series.checkpoints)[index])


def values(rows: Sequence[Row], feature: str, **wanted: object) -> list[float]:
    return [
        row.value
        for row in rows
        if row.feature == feature and all(getattr(row, key) == value for key, value in wanted.items())
    ]


def one(rows: Sequence[Row], feature: str, **wanted: object) -> float:
    found = values(rows, feature, **wanted)
    assert len(found) == 1, (feature, wanted, len(found))
    return found[0]


def tree_of(W: np.ndarray) -> np.ndarray:
    """Edge weights of the maximum spanning tree, by networkx."""
    graph = nx.Graph()
    for i, j in itertools.product(*map(range, W.shape)):
        graph.add_edge(("row", i), ("column", j), weight=float(abs(W[i, j])))
    tree = nx.maximum_spanning_tree(graph)
    return np.array([data["weight"] for *_, data in tree.edges(data=True)])


def test_neural_persistence_against_networkx() -> None:
    series = Memory([0])
    rows = measure(NeuralPersistence(WeightOptions()), series).rows
    matrices = {m.name: m.values for m in series.matrices(series.checkpoints[0])}
    top = max(float(np.abs(W).max()) for W in matrices.values())
    rieck, seed004 = {}, {}
    for name, W in matrices.items():
        tree = tree_of(W)
        rieck[name] = np.sqrt(np.mean((1 - tree / top) ** 2))
        seed004[name] = np.mean(1 - tree / np.abs(W).max())
    for filtration, expected in (("rieck", rieck), ("seed004", seed004)):
        for name, value in expected.items():
            found = one(rows, "neural_persistence", name=name, filtration=filtration)
            assert found == pytest.approx(value, rel=1e-12)
        model = {"name": "model", "role": Role.MODEL, "filtration": filtration}
        assert one(rows, "neural_persistence", **model) == pytest.approx(np.mean(list(expected.values())))
        assert one(rows, "neural_persistence_std", **model) == pytest.approx(np.std(list(expected.values())))
        mlp = np.mean([expected["layers.0.mlp.fc1.weight"], expected["layers.0.mlp.fc2.weight"]])
        assert one(
            rows, "neural_persistence", role=Role.MLP, name="role", filtration=filtration
        ) == pytest.approx(mlp)


def test_confounds() -> None:
    series = Memory([0])
    rows = measure(NeuralPersistence(WeightOptions()), series).rows
    W = next(m.values for m in series.matrices(series.checkpoints[0]) if m.name == "head.weight").astype(
        float
    )
    magnitude = np.abs(W)
    label = {"name": "head.weight", "filtration": "seed004"}
    variance = float((magnitude / magnitude.max()).var())
    assert one(rows, "weight_variance", **label) == pytest.approx(variance, rel=1e-6)
    clip = np.quantile(magnitude, 0.999, method="higher")
    clipped = np.mean(1 - np.minimum(tree_of(W) / clip, 1))
    assert one(rows, "neural_persistence_clipped", **label) == pytest.approx(clipped, rel=1e-6)


def test_the_null_has_as_many_draws_and_no_excess_without_structure() -> None:
    series = Memory([0])
    rows = measure(NeuralPersistence(WeightOptions(nulls=20)), series).rows
    null = values(rows, "neural_persistence_shuffled", name="model", filtration="rieck")
    observed = one(rows, "neural_persistence", name="model", filtration="rieck")
    excess = one(rows, "neural_persistence_excess", name="model", filtration="rieck")
    assert excess == pytest.approx(observed - np.mean(null))
    assert len(null) == 20
    drawn = [row for row in rows if row.feature == "neural_persistence_shuffled" and row.name == "model"]
    assert [row.draw for row in drawn if row.filtration == "rieck"] == list(range(20))
    assert abs(excess) < 4 * np.std(null)


def test_structure_has_an_excess() -> None:
    class Structured(Memory):
        def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
            for matrix in super().matrices(checkpoint):
                rows = np.exp(2.0 * np.random.default_rng(1).standard_normal((len(matrix.values), 1)))
                yield Matrix(checkpoint, matrix.name, (matrix.values * rows).astype(np.float32), matrix.role)

    rows = measure(NeuralPersistence(WeightOptions()), Structured([0])).rows
    null = values(rows, "neural_persistence_shuffled", name="model", filtration="seed004")
    assert one(rows, "neural_persistence_excess", name="model", filtration="seed004") > 5 * np.std(null)


def test_scale_does_not_change_neural_persistence() -> None:
    probe = NeuralPersistence(WeightOptions())
    small, large = (measure(probe, Memory([0], scale)).rows for scale in (1.0, 1024.0))
    for a, b in zip(small, large, strict=True):
        assert a.value == pytest.approx(b.value, rel=1e-6), a.feature


def test_rips_against_ripser() -> None:
    series = Memory([0])
    rows = measure(Rips(WeightOptions(points=300)), series).rows
    total = 0.0
    for matrix in series.matrices(series.checkpoints[0]):
        h0, h1 = ripser(squareform(pdist(matrix.values.astype(float))), maxdim=1, distance_matrix=True)[
            "dgms"
        ]
        lengths = h0[:-1, 1]
        label = {"name": matrix.name, "draw": None, "status": Status.OK}
        assert one(rows, "h0_total", **label) == pytest.approx(lengths.sum(), rel=1e-5)
        assert one(rows, "h0_count", **label) == len(matrix.values) - 1
        assert one(rows, "h0_std", **label) == pytest.approx(lengths.std(), rel=1e-4)
        assert one(rows, "h1_total", **label) == pytest.approx((h1[:, 1] - h1[:, 0]).sum(), abs=1e-4)
        scaled = lengths.sum() / np.median(pdist(matrix.values.astype(float)))
        assert one(rows, "h0_total_scaled", **label) == pytest.approx(scaled, rel=1e-5)
        total += lengths.sum()
    assert one(rows, "h0_total", name="layers") == pytest.approx(total, rel=1e-5)
    cloud = np.vstack(
        [
            np.pad(m.values, ((0, 0), (0, 32 - m.values.shape[1])))
            for m in series.matrices(series.checkpoints[0])
        ]
    )
    pooled = ripser(squareform(pdist(cloud.astype(float))), maxdim=0, distance_matrix=True)["dgms"][0][
        :-1, 1
    ].sum()
    assert one(rows, "h0_total", name="pooled", draw=None) == pytest.approx(pooled, rel=1e-5)


def test_subsampled_clouds_say_so() -> None:
    rows = measure(Rips(WeightOptions(points=30, draws=3)), Memory([0])).rows
    pooled = [row for row in rows if row.name == "pooled" and row.feature == "h0_total"]
    assert [row.draw for row in pooled] == [0, 1, 2]
    assert {(row.status, row.note) for row in pooled} == {(Status.SUBSAMPLED, "30 of 124 rows")}
    assert len({row.value for row in pooled}) == 3
    assert one(rows, "h0_count", name="head.weight", draw=None) == 29
    assert len(values(rows, "h0_total", name="layers.0.mlp.fc1.weight")) == 3
    layers = [row for row in rows if row.name == "layers" and row.feature == "h0_total"]
    assert [(row.draw, row.status) for row in layers] == [(k, Status.SUBSAMPLED) for k in range(3)]
    for draw, row in enumerate(layers):
        parts = [
            r.value for r in rows if r.name in SHAPES and r.feature == "h0_total" and r.draw in (None, draw)
        ]
        assert row.value == pytest.approx(sum(parts))


def test_a_threshold_says_so() -> None:
    rows = measure(Rips(WeightOptions(thresh=2.0)), Memory([0])).rows
    pooled = [row for row in rows if row.name == "pooled"]
    assert {row.status for row in pooled} == {Status.TRUNCATED}
    assert one(rows, "h0_count", name="pooled") < 123


def test_rips_totals_scale_with_the_weights_and_their_scaled_forms_do_not() -> None:
    probe = Rips(WeightOptions(points=300))
    small, large = (measure(probe, Memory([0], scale)).rows for scale in (1.0, 4.0))
    for feature, factor in (
        ("h0_total", 4),
        ("h1_total", 4),
        ("h0_total_scaled", 1),
        ("h0_total_sq", 16),
        ("h0_entropy", 1),
    ):
        assert one(large, feature, name="pooled") == pytest.approx(
            factor * one(small, feature, name="pooled"), rel=1e-5
        )


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_the_median_distance(n: int) -> None:
    points = np.random.default_rng(n).standard_normal((n, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert median_distance(distances) == pytest.approx(np.median(pdist(points)))


def test_a_draw_does_not_depend_on_how_many_there_are() -> None:
    series, options = Memory([0, 1]), WeightOptions(points=20, draws=3)
    first, _ = series.checkpoints
    again = pooled_draws(series.matrices(first), first, WeightOptions(points=20, draws=2))
    draws = pooled_draws(series.matrices(first), first, options)
    for a, b in zip(again, draws, strict=False):
        np.testing.assert_array_equal(a.points, b.points)
    rows = [row.tolist() for matrix in series.matrices(first) for row in matrix.values]
    width = draws[0].points.shape[1]
    whole = {tuple(row + [0.0] * (width - len(row))) for row in rows}
    assert all(tuple(point.tolist()) in whole for draw in draws for point in draw.points)
    assert all(len({tuple(p) for p in draw.points.tolist()}) == 20 for draw in draws)


def test_pooled_draws_are_uniform() -> None:
    values = np.arange(60, dtype=np.float32)[:, None]
    at = Checkpoint("run", 0)
    matrices = [Matrix(at, "a", values[:10]), Matrix(at, "b", values[10:])]
    draws = pooled_draws(matrices, at, WeightOptions(points=15, draws=400))
    counts = np.bincount(np.concatenate([d.points[:, 0] for d in draws]).astype(int), minlength=60)
    expected = 400 * 15 / 60
    chi2 = float(((counts - expected) ** 2 / (expected * (1 - 15 / 60))).sum())
    assert chi2 < 100  # 59 degrees of freedom: exceeded with probability 7e-4


def test_row_draws_are_sorted_rows_without_repeats() -> None:
    matrix = Matrix(Checkpoint("run", 0), "a", np.arange(50, dtype=np.float32)[:, None])
    draws = list(row_draws(matrix, WeightOptions(points=10, draws=2)))
    assert [draw.number for draw in draws] == [0, 1]
    for draw in draws:
        assert len(np.unique(draw.points)) == 10
        assert (np.diff(draw.points[:, 0]) > 0).all()


def test_baselines_against_svd() -> None:
    series = Memory([0])
    rows = measure(Baselines(WeightOptions()), series).rows
    matrices = list(series.matrices(series.checkpoints[0]))
    norms = []
    for matrix in matrices:
        sigma = np.linalg.svd(matrix.values.astype(float), compute_uv=False)
        norms.append(np.linalg.norm(sigma))
        assert one(rows, "spectral_norm", name=matrix.name) == pytest.approx(sigma[0])
        assert one(rows, "stable_rank", name=matrix.name) == pytest.approx((sigma**2).sum() / sigma[0] ** 2)
    assert one(rows, "frobenius_norm", name="layers") == pytest.approx(np.mean(norms))
    assert one(rows, "weight_norm", name="model") == pytest.approx(np.linalg.norm(norms))


def test_distances_of_a_checkpoint_to_itself_and_to_another() -> None:
    class Still(Memory):
        def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
            for matrix in super().matrices(Checkpoint("run", 0)):
                yield Matrix(checkpoint, matrix.name, matrix.values, matrix.role, matrix.layer)

    options = WeightOptions(points=300)
    assert measure(Distances(options), Memory([0, 1]), 0).rows == []
    still = measure(Distances(options), Still([0, 1]), 1).rows
    moved = measure(Distances(options), Memory([0, 1]), 1).rows
    assert len(still) == len(moved) == 3 * (2 + len(SHAPES) + 1)
    assert max(row.value for row in still) == pytest.approx(0, abs=1e-6)
    assert min(row.value for row in moved) > 0
    for suffix, name in (("h0", "pooled"), ("h1", "pooled"), ("np", "head.weight")):
        assert one(moved, f"bottleneck_{suffix}", name=name) <= one(
            moved, f"wasserstein1_{suffix}", name=name
        )


def test_distances_of_wide_matrices_are_thinned() -> None:
    class Wide(Memory):
        def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
            yield Matrix(
                checkpoint, "w", np.random.default_rng(checkpoint.step).random((40, 700)).astype(np.float32)
            )

    rows = measure(Distances(WeightOptions(clouds=())), Wide([0, 1]), 1).rows
    assert {row.status for row in rows if row.name == "w"} == {Status.SUBSAMPLED}


class Path3(Memory):
    """Checkpoints at known places: the weights are all equal to where the path is."""

    def __init__(self, places: Sequence[float]) -> None:
        super().__init__(range(len(places)))
        self.places = places

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        yield Matrix(checkpoint, "w", np.full((2, 2), self.places[checkpoint.step], np.float32))


def test_trajectory_on_a_line() -> None:
    rows = measure(Trajectory(WeightOptions()), Path3([0.0, 1.0, 3.0]), 2).rows
    assert one(rows, "trajectory_step_length") == pytest.approx(4.0)  # 2 in each of 4 weights
    assert one(rows, "trajectory_h0_total") == pytest.approx(6.0)
    assert one(rows, "trajectory_h1_total") == 0
    assert values(rows, "trajectory_ph_dimension") == []


def test_trajectory_of_one_checkpoint() -> None:
    rows = measure(Trajectory(WeightOptions()), Path3([2.0]), 0).rows
    assert one(rows, "trajectory_h0_total") == 0
    assert values(rows, "trajectory_step_length") == []


def test_the_dimension_of_a_straight_path_is_one() -> None:
    places = list(np.sort(np.random.default_rng(0).random(120)) * 50)
    rows = measure(Trajectory(WeightOptions()), Path3(places), 119).rows
    assert one(rows, "trajectory_ph_dimension") == pytest.approx(1.0, abs=0.35)


def test_a_loop_of_checkpoints_has_an_h1_bar() -> None:
    class Loop(Memory):
        def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
            angle = 2 * np.pi * checkpoint.step / 12
            yield Matrix(checkpoint, "w", np.array([[np.cos(angle), np.sin(angle)]], np.float32))

    rows = measure(Trajectory(WeightOptions()), Loop(range(12)), 11).rows
    side = 2 * np.sin(np.pi / 12)
    assert one(rows, "trajectory_h1_total") == pytest.approx(np.sqrt(3.0) - side, rel=1e-5)


def test_sketches_keep_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    series = Memory([0, 1, 2])
    exact = measure(Trajectory(WeightOptions()), series, 2).rows
    monkeypatch.setattr(trajectory, "EXACT", 100)
    sketched = measure(Trajectory(WeightOptions()), series, 2).rows
    assert {row.note for row in sketched} == {"count sketch of 4096 coordinates"}
    for feature in ("trajectory_step_length", "trajectory_h0_total"):
        assert one(sketched, feature) == pytest.approx(one(exact, feature), rel=0.1)


def test_a_trajectory_of_models_of_different_sizes() -> None:
    class Growing(Memory):
        def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
            yield Matrix(checkpoint, "w", np.ones((2, 2 + checkpoint.step), np.float32))

    with pytest.raises(
        InputError,
        match=r"step 1 has 6 weights, but the first step of the run has 4; the two cannot be compared",
    ):
        measure(Trajectory(WeightOptions()), Growing([0, 1]), 1)


def test_small_checkpoints_are_read_once_and_large_ones_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    series = Memory([0])
    snapshot = RunReader(series, series.checkpoints)[0]
    for probe in weight_probes(["cheap"], WeightOptions()):
        probe.measure(snapshot)
    assert len(series.reads) == 1
    monkeypatch.setattr("toposcope.subjects.snapshot.CACHE_BYTES", 1000)
    snapshot = RunReader(series, series.checkpoints)[0]
    list(snapshot.matrices())
    list(snapshot.matrices())
    assert len(series.reads) == 3


def test_measuring_together_changes_nothing() -> None:
    options = WeightOptions(points=20, draws=2)
    for probe in (NeuralPersistence(options), Rips(options)):
        series = Memory([0, 1, 2])
        reader = RunReader(series, series.checkpoints)
        together = probe.measure_together([reader[k] for k in range(3)])
        alone = [measure(probe, series, k) for k in range(3)]
        assert [m.rows for m in together] == [m.rows for m in alone]
        assert [len(m.diagrams) for m in together] == [len(m.diagrams) for m in alone]


def test_batches() -> None:
    at = Checkpoint("run", 0)
    sizes = [1, 2, 3, 10, 1, 1]
    matrices = [(k, Matrix(at, "", np.zeros((n, 1), np.float32))) for k, n in enumerate(sizes)]
    assert [[k for k, _ in batch] for batch in batches(iter(matrices), 16)] == [[0, 1], [2], [3], [4, 5]]
    assert BATCH_BYTES > 1e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WeightOptions(points=2), "points 2: it must be at least 3"),
        (lambda: WeightOptions(draws=0), "draws 0: it must be at least 1"),
        (lambda: WeightOptions(nulls=-1), "nulls -1: it must be at least 0"),
        (lambda: WeightOptions(thresh=0.0), "thresh 0: it must be positive"),
        (lambda: preset("seed005"), "preset 'seed005': unknown; use one of default, seed004"),
        (
            lambda: weight_probes(["holes"], WeightOptions()),
            "features 'holes': no such probe; use cheap, all, .*, or MODULE:CLASS",
        ),
    ],
)
def test_bad_settings(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


PAPER = {
    "tiny-3k": (0.3628, 0.0425), "small-7k": (0.4425, 0.0514), "med-21k": (0.3737, 0.0637),
    "large-46k": (0.3848, 0.0491), "xl-97k": (0.3602, 0.0391),
}  # fmt: skip
LAST = {"tiny-3k": 0.5022, "small-7k": 0.4503, "med-21k": 0.4176, "large-46k": 0.4468, "xl-97k": 0.4570}


def test_the_paper_preset_gives_the_papers_figures(shared_data: Path) -> None:
    options = preset("seed004", draws=20)
    series = open_series(shared_data / "seed_runs", split=options.split, steps=[0, 5000])
    for run, (mean, std) in PAPER.items():
        reader = RunReader(series, series.of_run(run))
        rows = NeuralPersistence(options).measure(reader[0]).rows
        assert round(one(rows, "neural_persistence", name="model"), 4) == mean
        assert round(one(rows, "neural_persistence_std", name="model"), 4) == std
        rows = NeuralPersistence(options).measure(reader[1]).rows
        assert round(one(rows, "neural_persistence", name="model"), 4) == LAST[run]
    reader = RunReader(series, series.of_run("tiny-3k"))
    for index, (h0, h1) in enumerate([(7.557, 0.497), (81.768, 2.115)]):
        rows = Rips(options).measure(reader[index]).rows
        assert one(rows, "h0_total", name="pooled") == pytest.approx(h0, abs=6e-4)
        assert one(rows, "h1_total", name="pooled") == pytest.approx(h1, abs=6e-4)
    rows = Rips(options).measure(RunReader(series, series.of_run("xl-97k"))[1]).rows
    draws = values(rows, "h0_total", name="pooled")
    assert len(draws) == 20
    assert abs(np.mean(draws) - 188.253) < 3 * np.std(draws)
    assert 1.0 < np.std(draws) < 8.0
