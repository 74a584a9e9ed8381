"""Algorithms: terms there and back, known by name, and a stranger's with a state of any shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import Algorithm, FedAvg, Method
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS
from fedgeom.methods.catalogue import method_class
from fedgeom.methods.iterative import Decay, Interpolation, Tree, TrimmedMean
from fedgeom.protocols.join.messages import Hello
from tests.methods.iterative.making import ALGORITHMS, algorithm_class, own, unlike, whole
from tests.methods.iterative.simulation import simulate

SITES = unlike()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_rounds": 3, "classes": ("a", "b"), "learning_rate": 0.5},
        {"aggregation": TrimmedMean(0.3), "schedule": Decay(0.5), "personal": Interpolation(0.25)},
    ],
)
def test_terms_there_and_back(name, options):
    cls = algorithm_class(name)
    algorithm = cls(**{key: value for key, value in options.items() if name != "apple" or key != "aggregation"})
    assert cls.from_terms(algorithm.terms()) == algorithm
    sent = msgspec.msgpack.encode(Hello(rounds=1, terms=algorithm.terms()))
    read = msgspec.msgpack.decode(sent, type=Hello).terms
    assert cls.from_terms(read) == algorithm
    assert cls.from_terms(read).terms() == algorithm.terms()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_known_by_name(name):
    cls = algorithm_class(name)
    assert cls.name == name
    assert method_class(name) is cls is METHODS[name]
    assert issubclass(cls, Algorithm)
    assert issubclass(cls, Method)


def test_terms_of_something_else():
    with pytest.raises(InputError, match=r"there is no setting 'trim'; there are: .*aggregation"):
        FedAvg.from_terms({"trim": 0.3})
    with pytest.raises(InputError, match="n_rounds='many' given; wanted a whole number from 1 to 2045"):
        FedAvg.from_terms({"n_rounds": "many"})


def test_sites_must_fit_together():
    odd = fedgeom.SiteData("odd", np.ones((4, 3)), ["class 0", "class 1"] * 2)
    with pytest.raises(InputError, match="sites must have the same columns: most have 2, but site 'odd' has 3"):
        fedgeom.run(FedAvg(), [*SITES, odd])
    same = [fedgeom.SiteData(site.name, site.X, ["x"] * len(site)) for site in SITES]
    with pytest.raises(InputError, match="all sites together have one class, x; a classifier needs two"):
        fedgeom.run(FedAvg(), same)
    with pytest.raises(InputError, match=r"'s0'.*: labels outside the agreed classes: class 1"):
        fedgeom.run(FedAvg(classes=("class 0", "other")), SITES)
    with pytest.raises(InputError, match="has classes with fewer than 100 rows"):
        fedgeom.run(FedAvg(min_rows=100), SITES)


def test_agreed_classes_need_not_occur():
    run = fedgeom.run(FedAvg(n_rounds=1, classes=("class 0", "class 1", "rare")), SITES)
    assert run.model.names == ("class 0", "class 1", "rare")
    assert run.model.parameters["weights"].shape == (2, 3)


# A stranger's algorithm.


@dataclass(frozen=True, kw_only=True)
class Prototypes(Algorithm):
    """Beside the model, sites send a scalar, float32 prototypes larger than the model, and other facts."""

    name: ClassVar[str] = "test-prototypes"
    sends: ClassVar[tuple[str, ...]] = ("model", "prototypes", "facts")
    gives: ClassVar[tuple[str, ...]] = ("model", "prototypes", "pull", "seen")

    def start(self, model):
        return {"model": model, "prototypes": np.zeros((2, 5), np.float32), "pull": 0.5, "seen": Tree(rounds=0)}

    def sent_like(self, model):
        return Tree(
            model=model, prototypes=np.zeros((2, 5), np.float32), facts={"rows": 0.0, "ends": np.zeros((2, 1, 2))}
        )

    def local(self, task, given, own):
        own["visits"] = own.get("visits", 0) + 1
        assert own["visits"] == given["seen"]["rounds"] + 1
        assert given["prototypes"].dtype == np.float32
        assert isinstance(given["pull"], float)
        means = [task.X[task.y == label].mean(axis=0) for label in (0, 1)]
        mine = np.array([[*mean, len(task.X), *(mean**2)] for mean in means], np.float32)
        trained = task.fit(given["model"])
        pulled = (1 - given["pull"]) * trained + given["pull"] * given["model"]
        ends = np.array([task.X.min(axis=0), task.X.max(axis=0)])[:, None, :]
        return {
            "model": pulled,
            "prototypes": (given["prototypes"] + mine) / 2,
            "facts": {"rows": np.log(task.rows), "ends": ends},
        }

    def combine(self, state, mean, round):
        assert mean["prototypes"].dtype == np.float32
        assert mean["facts"]["ends"].shape == (2, 1, 2)
        assert state["seen"]["rounds"] == round.number
        return {
            "model": mean["model"],
            "prototypes": mean["prototypes"],
            "pull": state["pull"] * np.exp(-mean["facts"]["rows"] / 10),
            "seen": {"rounds": round.number + 1},
        }


@pytest.mark.parametrize("weights", ["rows", "sites"])
def test_a_state_of_any_shape_trains_securely_as_in_the_open_and_as_its_twin(weights):
    options = {"n_rounds": 3, "epochs": 1, "batch_size": 5, "weights": weights}
    secure = fedgeom.run(Prototypes(**options), SITES, seed=2)
    shown = fedgeom.run(Prototypes(secure=False, **options), SITES, seed=2)
    twin = simulate(Prototypes(**options), SITES, 2)
    assert secure.lost == shown.lost == {}
    assert "train.update" not in {entry.kind for entry in secure.ledger}
    assert secure.model.to_bytes() == shown.model.to_bytes() == twin.model.to_bytes()
    for site in SITES:
        assert (own(secure, site.name) == own(twin, site.name)).all()
    assert (whole(secure.model) != whole(FedAvg(**options).plain(SITES, seed=2).model)).any()


def test_a_state_of_any_shape_goes_on_after_a_crash(tmp_path):
    algorithm = Prototypes(n_rounds=3, epochs=1)

    class KilledError(Exception):
        pass

    def die(site, request):
        if b"train.masked" in request and (tmp_path / "run" / "rounds" / "0002.safetensors").exists():
            raise KilledError

    with pytest.raises(KilledError):
        fedgeom.run(algorithm, SITES, record=tmp_path / "run", resumable=True, interfere=die)
    run = fedgeom.run(algorithm, SITES, record=tmp_path / "run", resume=True)
    assert run.model.to_bytes() == simulate(algorithm, SITES).model.to_bytes()


HEARD: list[tuple[int, float, float]] = []


@dataclass(frozen=True, kw_only=True)
class Noisy(Algorithm):
    """Adds noise at the coordinator, and tells what it knows of each round."""

    name: ClassVar[str] = "test-noisy"

    def combine(self, state, mean, round):
        noise = mean["model"].map(lambda leaf: 0.01 * round.rng.normal(size=leaf.shape))
        HEARD.append((round.number, round.share, float(noise["intercept"][0])))
        return {"model": mean["model"] + noise}


def heard(run) -> list[tuple[int, float, float]]:
    HEARD.clear()
    run()
    return list(HEARD)


def test_combine_knows_the_round_and_draws_from_the_runs_seed():
    algorithm = Noisy(n_rounds=3, epochs=1)
    first = heard(lambda: fedgeom.run(algorithm, SITES, seed=1))
    assert [(number, share) for number, share, _ in first] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    draws = {draw for _, _, draw in first}
    assert len(draws) == 3  # every round has a generator of its own
    assert heard(lambda: fedgeom.run(algorithm, SITES, seed=1)) == first
    assert heard(lambda: fedgeom.run(Noisy(n_rounds=3, epochs=1, secure=False), SITES, seed=1)) == first
    assert heard(lambda: algorithm.plain(SITES, seed=1)) == first
    assert heard(lambda: simulate(algorithm, SITES, 1)) == first
    assert not draws & {draw for _, _, draw in heard(lambda: algorithm.plain(SITES, seed=2))}
    twin = simulate(algorithm, SITES, 1).model
    assert fedgeom.run(algorithm, SITES, seed=1).model.to_bytes() == twin.to_bytes()


def test_combine_knows_the_share_of_the_sites():
    found = heard(
        lambda: fedgeom.run(Noisy(n_rounds=2, epochs=1, participation=0.5, min_sites=2, secure=False), SITES)
    )
    assert [share for _, share, _ in found] == [0.5, 0.5]
