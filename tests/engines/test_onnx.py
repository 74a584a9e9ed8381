"""Models as ONNX files: the same answers from another program."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import fedgeom
from fedgeom.cli import app
from fedgeom.errors import InputError
from fedgeom.preparation import PCA, Clip, LogCounts, Scale

onnx = pytest.importorskip("onnx", reason="needs the onnx extra")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 50.0, 1.0, -7.0]
y = (X[:, 0] + 0.1 * (X[:, 1] - 50) + RNG.normal(size=400) > 0).astype(int) + (X[:, 2] > 1.1)
GAUSSIAN = fedgeom.Moments(space="euclidean")


def answers(data, inputs):
    """Return what the runtime says, or where it is not installed ONNX's own evaluator: labels and probabilities."""
    try:
        import onnxruntime  # in the extra, but not for all platforms
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(onnx.load_from_string(data)).run(None, inputs)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def check(model, rows, inputs):
    labels, chances = answers(model.to_onnx(), inputs)
    np.testing.assert_allclose(chances, model.predict_proba(rows), atol=1e-6)
    assert labels.tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize(
    "labels", [y, y > 0, np.array(["a", "b", "c"])[y], y / 2], ids=["int", "bool", "text", "float"]
)
@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Ridge(features="linear"),
        fedgeom.Ridge(features="fourier"),
        fedgeom.Ridge(features=["linear", "fourier"], rule="discriminant"),
        GAUSSIAN,
        fedgeom.Moments(space="euclidean", rule="centroid"),
        fedgeom.FedAvg(n_rounds=3),
        fedgeom.Pipeline(Clip(ranges=[-20, 55]), Scale(), PCA(3), GAUSSIAN),
    ],
    ids=["linear", "fourier", "both", "gaussian", "centroid", "fedavg", "pipeline"],
)
def test_numbers_in_the_same_answers_out(method, labels):
    model = fedgeom.run(method, fedgeom.split(X, labels)).model
    check(model, X, {"X": X})
    assert model.to_onnx() == model.to_onnx()


def test_counts():
    counts = RNG.poisson(3.0, (300, 30)) * (RNG.random((300, 1)) + 0.5) // 1
    kinds = (counts[:, :3].sum(axis=1) > 9).astype(int)
    counts[5] = 0
    model = fedgeom.run(
        fedgeom.Pipeline(LogCounts(), Scale(), fedgeom.Ridge(features="linear")), fedgeom.split(counts, kinds)
    ).model
    check(model, counts, {"X": counts})


def raw_table():
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    frame = pandas.DataFrame(X.copy(), columns=list("abcd"))
    frame.loc[::7, "b"] = np.nan
    frame["sex"] = np.where(X[:, 0] > 0.3, "m", "f")
    frame["ward"] = RNG.choice(["north", "south", "west"], 400, p=[0.5, 0.49, 0.01])
    frame.loc[::5, "ward"] = None
    return frame, np.where(y > 0, "ill", "well")


@pytest.fixture(scope="module")
def mixed():
    frame, labels = raw_table()
    sites = fedgeom.SiteData.from_frame(
        frame.assign(label=labels, at=np.arange(400) % 3), label="label", by="at", text=True
    )
    return fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), sites).model, frame


def as_inputs(model, frame):
    """Return a frame's columns as the file wants them: numbers, or texts that are empty for gaps."""
    text = {name: frame[name].dtype == object for name in model.feature_names_in_}
    return {
        name: frame[[name]].fillna("").to_numpy(object) if text[name] else frame[[name]].to_numpy(np.float64)
        for name in model.feature_names_in_
    }


def test_gaps_and_text_as_they_are(mixed):
    model, frame = mixed
    new = frame.copy()
    new.loc[3, "ward"] = "never seen"
    new.loc[4, "a"] = np.nan
    check(model, new, as_inputs(model, new))


def test_the_command_writes_the_file_once(mixed, tmp_path):
    model, _ = mixed
    model.save(tmp_path / "model.safetensors")
    place = tmp_path / "model.onnx"

    def call(*more):
        return CliRunner().invoke(app, ["export", str(tmp_path / "model.safetensors"), *map(str, more)])

    assert call(place).exit_code == 0
    assert place.read_bytes() == model.to_onnx()
    again = call(place)
    assert (again.exit_code, "--force" in again.output) == (2, True)
    assert call(place, "--force").exit_code == 0
    assert call(tmp_path / "model.txt").exit_code == 2


def test_what_cannot_be_exported_says_so():
    sites = fedgeom.split(X, y)
    binned = fedgeom.run(fedgeom.Ridge(features="binned"), sites).model
    with pytest.raises(
        InputError, match="features 'binned' cannot be exported to ONNX; those of linear and fourier"
    ):
        binned.to_onnx()
    mixture = fedgeom.run(fedgeom.Ellipses(names="shared"), sites).model
    with pytest.raises(
        InputError, match="this ellipses model cannot be exported to ONNX; those that can are Ridge"
    ):
        mixture.to_onnx()
    with pytest.raises(InputError, match="export a site's"):
        fedgeom.run(fedgeom.LocalOnly(n_rounds=1), sites).model.to_onnx()
    cut = fedgeom.run(fedgeom.Pipeline(Scale(max_value=1.0), fedgeom.Ridge(features="linear")), sites).model
    with pytest.raises(InputError, match="step 'scale' cannot be exported to ONNX"):
        cut.to_onnx()
