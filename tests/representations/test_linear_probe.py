"""The linear probe: it reads what is there and nothing that is not; its files are checked."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.subjects.representations.probes.linear_probe import load_labelled, probe_accuracy


def test_a_linear_signal_is_found_and_noise_is_not():
    generator = np.random.default_rng(0)
    labels = tuple(generator.choice(["no", "yes"], 200))
    noise = generator.standard_normal((200, 20))
    signal = noise.copy()
    signal[:, 3] += 3.0 * (np.array(labels) == "yes")
    assert probe_accuracy(signal, labels)[0] > 0.9
    assert abs(probe_accuracy(noise, labels)[0] - 0.5) < 0.12


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [
        ("a.tsv", "sentence\tlabel", "a {0}\t{1}"),
        ("a.csv", "text,label", "a {0},{1}"),
        ("mrpc.tsv", "Quality\t#1 String\t#2 String", "{1}\ta\t{0}"),
    ],
)
def test_glues_formats_are_read(tmp_path, name, header, row):
    path = tmp_path / name
    path.write_text("\n".join([header, *(row.format(i, i % 2) for i in range(12))]))
    read = load_labelled(path)
    assert read.items[3] == "a 3"
    assert read.labels[:3] == ("0", "1", "0")
    assert read.majority == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n1\t2", "needs a column 'label'"),
        ("sentence\tlabel\nx\t0\ny\t1", "at least two labels with 5 texts each"),
    ],
)
def test_bad_labelled_files_are_named(tmp_path, text, message):
    path = tmp_path / "bad.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_labelled(path)


def test_every_layer_gets_an_accuracy(tmp_path):
    from tests.representations.conftest import TEXTS, write_causal_model
    from toposcope.models.loading import ModelLoader
    from toposcope.models.texts import Texts
    from toposcope.sources import open_series
    from toposcope.store import Store
    from toposcope.subjects.representations.options import RepresentationOptions
    from toposcope.subjects.representations.probes.probe import Representations
    from toposcope.subjects.representations.source import StateSource
    from toposcope.sweep.loop import sweep

    write_causal_model(tmp_path / "series" / "step0")
    (tmp_path / "l.tsv").write_text(
        "\n".join(["sentence\tlabel", *(f"{TEXTS[i % 5]} {i}\t{i % 5 < 2}" for i in range(40))])
    )
    options = RepresentationOptions(layers="all")
    texts = Texts("words", tuple(f"{text} {i}" for i in range(3) for text in TEXTS))
    labelled = load_labelled(tmp_path / "l.tsv")
    store = Store.create(tmp_path / "store", recipe=options.recipe(texts.digest, labelled.digest))
    probe = Representations(options, StateSource(texts, ModelLoader()), labelled)
    assert sweep(open_series(str(tmp_path / "series")), [probe], store).failures == []
    rows = store.features()
    accuracy = rows[rows.feature == "probe_accuracy"]
    assert sorted(accuracy.layer) == [0, 1, 2, 3]
    assert accuracy.value.max() > 0.9  # the words themselves tell the label
    assert rows[rows.feature == "majority_accuracy"].value.item() == pytest.approx(0.6)
