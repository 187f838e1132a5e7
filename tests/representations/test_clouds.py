"""Texts, reduction, matching across layers, CKA and attention graphs, each against a plain oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, Diagram
from toposcope.models.texts import load_texts
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes._attention import attention_h0
from toposcope.subjects.representations.probes._null import gaussian_twins
from toposcope.subjects.representations.probes.across_layers import carried_over, linear_cka
from toposcope.subjects.representations.probes.clouds import measure_layer
from toposcope.subjects.representations.probes.reduce import reduce_cloud


def _diagram(*bars):
    births, deaths = zip(*bars, strict=True) if bars else ((), ())
    return Diagram(1, np.array(births, float), np.array(deaths, float))


def test_texts_come_in_order_with_their_length(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("short\na longer line\n\nanother longer line\n")
    texts = load_texts(str(path), min_chars=10)
    assert texts.items == ("a longer line", "another longer line")
    assert texts.digest != load_texts(str(path)).digest


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", "\n".join(json.dumps({"text": t}) for t in ("one", "two"))),
        ("a.csv", 'label,text\n0,one\n1,"two"\n'),
        ("a.tsv", "sentence\tlabel\none\t0\ntwo\t1\n"),
    ],
)
def test_texts_are_found_in_structured_files(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert load_texts(str(path)).items == ("one", "two")


def test_a_wikitext_folder_gives_its_validation_split(shared_data):
    texts = load_texts(str(shared_data / "wikitext2"), limit=200, min_chars=100)
    assert len(texts) == 200
    assert min(map(len, texts.items)) >= 100


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"txt": 1}', "line 1: expected a JSON object with a 'text' field"),
        ("a.csv", "a,b\n1,2\n", "no column named 'text'"),
        ("a.txt", "\n\n", "a.txt is empty; give a file with a text on each line"),
    ],
)
def test_bad_text_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        load_texts(str(path))


def test_binary_and_missing_texts_are_named(tmp_path):
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        load_texts(str(tmp_path / "b.txt"))
    with pytest.raises(InputError, match="neither a file"):
        load_texts("nowhere")
    (tmp_path / "c.txt").write_text("one\n")
    with pytest.raises(InputError, match="there are 1 texts of at least 1 characters, but 5 are needed"):
        load_texts(str(tmp_path / "c.txt"), limit=5)


def test_principal_components_agree_with_scikit_learn():
    from sklearn.decomposition import PCA

    states = np.random.default_rng(0).standard_normal((60, 20)).astype(np.float32) * np.arange(1, 21)
    ours = reduce_cloud(states, "pca", 5)
    theirs = PCA(5, svd_solver="full").fit(states.astype(np.float64))
    np.testing.assert_allclose(np.abs(ours.points), np.abs(theirs.transform(states)), atol=1e-3)
    assert ours.explained == pytest.approx(theirs.explained_variance_ratio_.sum(), abs=1e-6)


def test_a_random_projection_keeps_distances_on_average():
    states = np.random.default_rng(1).standard_normal((40, 300)).astype(np.float32)
    reduced = reduce_cloud(states, "random", 200)
    assert reduced.points.shape == (40, 200)
    assert reduced.explained == pytest.approx(1.0, abs=0.1)
    np.testing.assert_array_equal(reduced.points, reduce_cloud(states, "random", 200).points)


def test_no_reduction_only_centres():
    states = np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32) + 5
    np.testing.assert_allclose(reduce_cloud(states, "none", 1).points.mean(0), 0, atol=1e-6)


def test_wrong_reductions_are_refused():
    with pytest.raises(InputError, match="components 0: it must be"):
        reduce_cloud(np.ones((3, 2), np.float32), "pca", 0)
    with pytest.raises(InputError, match="use pca, random or none"):
        reduce_cloud(np.ones((3, 2), np.float32), "tsne", 1)  # type: ignore[arg-type]


def test_matching_carries_close_bars_and_drops_far_ones():
    first = _diagram((0.0, 2.0), (10.0, 10.5))
    second = _diagram((0.1, 2.0))
    carried = carried_over(first, second)
    assert carried.pairs == 1
    assert carried.share == pytest.approx(2.0 / 2.5)
    assert carried.cost == pytest.approx(0.1 + 0.5 / np.sqrt(2))


def test_matching_cost_is_the_wasserstein_distance():
    from toposcope.topology import wasserstein

    generator = np.random.default_rng(3)
    one, two = (_diagram(*[(b, b + length) for b, length in generator.random((n, 2))]) for n in (30, 20))
    assert carried_over(one, two).cost == pytest.approx(wasserstein(one, two, order=1, ground="l2"))


def test_matching_of_empty_diagrams_is_defined():
    assert np.isnan(carried_over(_diagram(), _diagram((0.0, 1.0))).share)
    assert carried_over(_diagram((0.0, 1.0)), _diagram()).share == 0.0


def test_a_gaussian_twin_has_the_same_spectrum_and_is_gaussian():
    from toposcope.topology import baselines

    cloud = np.random.default_rng(5).exponential(size=(60, 8)) * np.arange(1, 9)
    twins = gaussian_twins(cloud, run="a", layer=3, draws=range(40))
    for twin in twins[:3]:
        mine, theirs = baselines(cloud), baselines(twin)
        for name in ("rankme", "rankme_eigenvalues", "participation_ratio", "stable_rank"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-6)
    centred = np.concatenate(twins) - cloud.mean(axis=0)
    skew = (centred**3).mean(axis=0) / (centred**2).mean(axis=0) ** 1.5
    assert np.abs(skew).max() < 0.15  # of the exponential: 2
    assert not np.allclose(twins[0], twins[1])
    np.testing.assert_array_equal(twins[1], gaussian_twins(cloud, run="a", layer=3, draws=[1])[0])


def test_twins_of_flat_and_wide_clouds_are_defined():
    point = np.ones((5, 3))
    np.testing.assert_array_equal(gaussian_twins(point, run="a", layer=0, draws=[0])[0], point)
    wide = np.random.default_rng(1).standard_normal((6, 40))
    (twin,) = gaussian_twins(wide, run="a", layer=0, draws=[0])
    np.testing.assert_allclose(np.cov(twin.T), np.cov(wide.T), atol=1e-10)


def test_the_null_is_found_in_gaussian_clouds_and_rejected_in_circles():
    options = RepresentationOptions(components=4, nulls=20, dimension=False)
    at = Checkpoint("a", 0)
    random = np.random.default_rng(2)
    angle = random.uniform(0, 2 * np.pi, 120)
    circle = np.column_stack([np.cos(angle), np.sin(angle), *random.standard_normal((2, 120)) * 0.05])

    def place(points):
        cloud = measure_layer(points.astype(np.float32), 0, at, options)
        nulls = [null.features()["h1_max"] for null in cloud.nulls]
        return sum(cloud.shapes[0].features()["h1_max"] > value for value in nulls)

    assert place(circle) == 20
    assert 0 < np.mean([place(random.standard_normal((120, 4))) for _ in range(8)]) < 20


def test_subsamples_share_out_the_twins():
    options = RepresentationOptions(components=3, points=10, draws=2, nulls=5, dimension=False)
    states = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)
    cloud = measure_layer(states, 0, Checkpoint("a", 0), options)
    assert [null.draw for null in cloud.nulls] == [0, 1, 2, 3, 4]
    assert {null.diagrams[0].n_vertices for null in cloud.nulls} == {10}


def test_cka_is_invariant_and_near_zero_for_independent_clouds():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((80, 200))
    rotation = np.linalg.qr(generator.standard_normal((200, 200)))[0]
    assert linear_cka(X, 3.0 * X @ rotation + 7.0) == pytest.approx(1.0)
    independent = generator.standard_normal((80, 200))
    assert abs(linear_cka(X, independent)) < 0.1
    assert linear_cka(X, independent, debiased=False) > 0.5
    with pytest.raises(InputError, match="same points"):
        linear_cka(X, X[:5])


class _Fixed:
    def __init__(self, attention):
        self._attention = attention

    def attentions(self, ids):
        return self._attention[len(ids)]


def test_attention_graphs_agree_with_scipy():
    generator = np.random.default_rng(5)
    stacks = {}
    for length in (2, 7):
        raw = generator.random((3, 2, length, length))
        stacks[length] = list(raw / raw.sum(-1, keepdims=True))
    values = attention_h0(_Fixed(stacks), [[1, 2], list(range(7))])
    assert values.shape == (2, 3, 2)
    for i, length in enumerate((2, 7)):
        for layer in range(3):
            for head in range(2):
                A = stacks[length][layer][head]
                distance = 1.0 - np.maximum(A, A.T)
                np.fill_diagonal(distance, 0.0)
                expected = minimum_spanning_tree(distance).sum() / (length - 1)
                assert values[i, layer, head] == pytest.approx(expected)


def test_attention_of_one_token_is_refused():
    with pytest.raises(InputError, match="fewer than two tokens"):
        attention_h0(_Fixed({}), [[1]])
