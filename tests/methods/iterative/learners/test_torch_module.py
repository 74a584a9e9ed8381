"""Torch modules as learners: like logistic regression where they are that, and without leaks between sites."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAdam, FedAvg, FedDyn, FedPer, FedProx, Scaffold
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Effort, Logistic, Objective, TorchLearner, Tree
from tests.methods.iterative.making import own, unlike, whole
from tests.methods.iterative.simulation import simulate

torch = pytest.importorskip("torch", reason="torch is not installed; it comes with the extra fedgeom[torch]")
nn = torch.nn
SITES = unlike(n_sites=3, rows=15, columns=4, classes=3)
SHORT = {"n_rounds": 2, "epochs": 2, "batch_size": 4}


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are slower with more, and other tests run beside these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def linear(columns, classes):
    layer = nn.Linear(columns, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def deep(columns, classes):
    return nn.Sequential(
        nn.Linear(columns, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, classes)
    )


def counting(columns, classes):
    """A batch norm whose running means depend on how many batches it has seen."""
    return nn.Sequential(nn.Linear(columns, 6), nn.BatchNorm1d(6, momentum=None), nn.Linear(6, classes))


LINEAR = TorchLearner("test-linear", linear)
DEEP = TorchLearner("test-deep", deep, head=("4.weight", "4.bias"))
COUNTING = TorchLearner("test-counting", counting)


@pytest.mark.parametrize("row", [FedAvg, FedProx, Scaffold, FedDyn])
def test_a_linear_module_is_logistic_regression_without_a_penalty(row):
    options = {"n_rounds": 3, "epochs": 3, "batch_size": None, "learning_rate": 0.2}
    ours = row(learner=Logistic(C=1e12), **options).plain(SITES).model
    theirs = row(learner=LINEAR, **options).plain(SITES).model
    assert np.allclose(theirs.parameters["weight"].T, ours.parameters["weights"], atol=1e-5)
    assert np.allclose(theirs.parameters["bias"], ours.parameters["intercept"], atol=1e-5)
    X = SITES[0].X
    assert np.allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=1e-5)


def test_loss_and_gradient_are_those_of_logistic_regression():
    X, y = SITES[0].X, np.arange(len(SITES[0])) % 3
    W, b = np.random.default_rng(0).normal(size=(3, 4)), np.array([0.1, 0.2, 0.3])
    LINEAR.bind(4, 3)
    plain, theirs = Logistic(C=1e12), Tree(weight=W, bias=b)
    ours = Tree(weights=W.T.copy(), intercept=b)
    assert LINEAR.loss(theirs, X, y) == pytest.approx(plain.loss(ours, X, y), abs=1e-5)
    assert LINEAR.nll(theirs, X, y) == pytest.approx(plain.nll(ours, X, y), abs=1e-5)
    slope, expected = LINEAR.gradient(theirs, X, y), plain.gradient(ours, X, y)
    assert np.allclose(slope["weight"].T, expected["weights"], atol=1e-5)


def test_an_objective_pulls_torch_as_it_pulls_numpy():
    X, y = SITES[0].X, np.arange(len(SITES[0])) % 3
    effort, rng = Effort(epochs=4, batch_size=None, learning_rate=0.1), np.random.default_rng(0)
    start = LINEAR.start(4, 3, rng)
    terms = [start.like(rng.normal(size=start.size)) for _ in range(2)]
    mine = [Tree(intercept=part["bias"], weights=part["weight"].T) for part in terms]
    ours = Tree(intercept=np.zeros(3), weights=np.zeros((4, 3)))
    expected = Logistic(C=1e12).fit(
        ours, X, y, objective=Objective(mine[0], 0.5, mine[1]), effort=effort, rng=np.random.default_rng(0)
    )
    found = LINEAR.fit(
        start, X, y, objective=Objective(terms[0], 0.5, terms[1]), effort=effort, rng=np.random.default_rng(0)
    )
    assert np.allclose(found["weight"].T, expected["weights"], atol=1e-5)


@pytest.mark.parametrize("learner", ["test-deep", "test-counting"])
def test_the_same_seed_gives_the_same_model_whatever_happened_before(learner):
    row = FedAvg(learner=learner, **SHORT)
    first = fedgeom.run(row, SITES, seed=1)
    torch.manual_seed(99)
    torch.rand(7)
    shown = fedgeom.run(FedAvg(learner=learner, secure=False, **SHORT), SITES, seed=1)
    assert first.model.to_bytes() == shown.model.to_bytes() == simulate(row, SITES, 1).model.to_bytes()
    assert fedgeom.run(row, SITES, seed=2).model.to_bytes() != first.model.to_bytes()


def test_the_processs_own_randomness_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fedgeom.run(FedAvg(learner=DEEP, **SHORT), SITES)
    DEEP.gradient(DEEP.start(4, 3, np.random.default_rng(0)), SITES[0].X, np.zeros(len(SITES[0]), np.int64))
    assert (torch.rand(3) == expected).all()


@pytest.mark.parametrize(("name", "build"), [("test-deep", deep), ("test-counting", counting)])
@pytest.mark.parametrize("secure", [True, False])
def test_a_new_process_for_every_question_changes_nothing(name, build, secure):
    """Also the learner is made anew before every question, as in a new process: nothing hides in the module."""
    row = FedAvg(learner=name, secure=secure, **SHORT)
    clean = fedgeom.run(row, SITES)

    def fresh(site, request):
        TorchLearner(name, build, head=("4.weight", "4.bias") if build is deep else ())

    run = fedgeom.run(row, SITES, interfere=fresh)
    assert run.model.to_bytes() == clean.model.to_bytes()
    for site in SITES:
        assert (own(run, site.name) == own(clean, site.name)).all()


def test_the_order_in_which_sites_are_served_changes_nothing():
    models = [fedgeom.run(FedAvg(learner="test-counting", **SHORT), sites).model for sites in (SITES, SITES[::-1])]
    assert models[0].to_bytes() == models[1].to_bytes()


def test_running_means_travel_and_counters_do_not():
    parameters = COUNTING.start(4, 3, np.random.default_rng(0))
    assert {"1.running_mean", "1.running_var"} == set(COUNTING.statistics) < set(parameters)
    assert "1.num_batches_tracked" not in parameters
    model = fedgeom.run(FedAvg(learner="test-counting", **SHORT), SITES).model
    assert (model.parameters["1.running_mean"] != 0).any()


@pytest.mark.parametrize("row", [FedAvg, FedAdam, FedDyn, Scaffold])
def test_running_variances_stay_positive(row):
    """A coordinator's step along a variance could make it negative; statistics are averaged, and nothing more."""
    model = fedgeom.run(row(learner="test-deep", n_rounds=6, epochs=1, batch_size=5), SITES).model
    assert (model.parameters["1.running_var"] > 0).all()
    assert np.isfinite(model.predict_proba(SITES[0].X)).all()


def test_fedper_keeps_the_head_at_home():
    run = fedgeom.run(FedPer(learner="test-deep", **SHORT), SITES)
    first = DEEP.start(4, 3, np.random.default_rng([0, 0]))
    assert (run.model.parameters["4.weight"] == first["4.weight"]).all()
    assert (run.model.parameters["0.weight"] != first["0.weight"]).any()
    mine = [run.model.for_site(run.local[site.name]).parameters for site in SITES]
    assert (mine[0]["4.weight"] != mine[1]["4.weight"]).any()
    assert (mine[0]["0.weight"] == mine[1]["0.weight"]).all()
    assert run.model.to_bytes() == simulate(FedPer(learner="test-deep", **SHORT), SITES).model.to_bytes()


def test_a_lonely_last_row_can_be_normalised():
    sites = [site.take(range(9)) for site in SITES]
    model = fedgeom.run(FedAvg(learner="test-deep", n_rounds=1, epochs=1, batch_size=4), sites).model  # 4 + 4 + 1
    assert np.isfinite(whole(model)).all()
    one = SITES[0].take([0])
    with pytest.raises(InputError, match="takes two rows; the site has one"):
        DEEP.fit(
            DEEP.start(4, 3, np.random.default_rng(0)),
            one.X,
            np.array([0]),
            rng=np.random.default_rng(0),
        )


def test_model_files(tmp_path):
    model = fedgeom.run(FedAvg(learner="test-deep", **SHORT), SITES).model
    model.save(tmp_path / "m.safetensors")
    back = fedgeom.load_model(tmp_path / "m.safetensors")
    assert (back.predict_proba(SITES[1].X) == model.predict_proba(SITES[1].X)).all()


def test_refusals():
    with pytest.raises(InputError, match='knows no solver "exact"'):
        FedAvg(learner="test-linear", solver="exact", n_rounds=1).plain(SITES)
    wrong = TorchLearner("test-wrong", linear, head=("top",))
    with pytest.raises(InputError, match="head arrays top are not in the module; it has"):
        wrong.start(4, 3, np.random.default_rng(0))
    with pytest.raises(InputError, match="call bind first"):
        TorchLearner("test-unbound", linear).loss({}, SITES[0].X, np.zeros(1, np.int64))


class Tempered(nn.Module):
    """Scores divided by one number that is learnt, too."""

    def __init__(self, columns, classes):
        super().__init__()
        self.inner, self.heat = nn.Linear(columns, classes), nn.Parameter(torch.tensor(1.0))

    def forward(self, rows):
        return self.inner(rows) / self.heat


def test_a_parameter_without_dimensions_travels_and_is_kept(tmp_path):
    learner = TorchLearner("test-tempered", Tempered)
    run = fedgeom.run(FedAvg(learner=learner, **SHORT), SITES, record=tmp_path / "run")
    assert run.model.to_bytes() == simulate(FedAvg(learner=learner, **SHORT), SITES).model.to_bytes()
    back = fedgeom.load_model(tmp_path / "run")
    assert back.parameters["heat"].shape == ()
    assert (back.predict_proba(SITES[0].X) == run.model.predict_proba(SITES[0].X)).all()
