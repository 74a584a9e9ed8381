"""Model files that were spoilt, by chance or on purpose: `load_model` reads them, or raises `InputError`."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import pickle
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from safetensors.numpy import save

import fedgeom
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.model import BLANK, FORMAT, from_bytes, to_bytes
from fedgeom.methods.catalogue import read_model

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 2**31, 2**63, 10**40, 0.5, -1e308, "", "x", "\x00", "9" * 400, [], [[]], [None], {},
    {"x": 1}, [1, "x"], ["a", "a"], [{"name": "scale"}], {"name": "linear"},
)  # fmt: skip
"""What facts are replaced by."""
DTYPES = ("f4", "f8", "i8", "i1", "u1", "u8", "?", "f2")


def sites(*, gaps: bool = False) -> list[fedgeom.SiteData]:
    """Return four sites with two classes."""
    rng = np.random.default_rng(0)
    found = []
    for at in range(4):
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 4)) + 2.0 * y[:, None]
        if gaps:
            X[::7, 1] = np.nan
        names = ("a", "b", "c", "d")
        found.append(fedgeom.SiteData(f"s{at}", X, np.array(["no", "yes"])[y], columns=names))
    return found


@cache
def files() -> dict[str, bytes]:
    """Return model files of several methods: the joint model, and the first site's own."""
    quick: dict[str, Any] = {"n_rounds": 2, "epochs": 1}
    methods: dict[str, Any] = {
        "moments": fedgeom.Moments(space="euclidean"),
        "centroid": fedgeom.Moments(rule="centroid", space="euclidean"),
        "ridge": fedgeom.Ridge(features="linear"),
        "prepared": fedgeom.Ridge(features="linear", prepare="table"),
        "ellipses": fedgeom.Ellipses(n_components=2, names="shared"),
        "hulls": fedgeom.Hulls(embedding="discriminant"),
        "xclp": fedgeom.XCLP(graph="anchors", n_anchors=8, n_rounds=2),
        "fedavg": fedgeom.FedAvg(**quick),
        "shrunk": fedgeom.Shrunk(n_rounds=2, n_folds=2),
    }
    if importlib.util.find_spec("gudhi"):
        methods["ptopofl"] = fedgeom.PTopoFL(n_points=20, **quick)
    found = {}
    for name, method in methods.items():
        run = fedgeom.run(method, sites(gaps=name == "prepared"), seed=0)
        found[name] = run.model.to_bytes()
        found[f"{name} at a site"] = run.model.for_site(run.local["s0"]).to_bytes()
    return found


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all nodes of a JSON value."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(one for key, value in inner for one in places(value, (*path, key)))]


def changed(tree: Any, rng: random.Random) -> Any:
    """Return a JSON value with one node replaced, removed or doubled."""
    path = rng.choice(places(tree))
    if not path:
        return rng.choice(VALUES)
    tree = copy.deepcopy(tree)
    owner = tree
    for key in path[:-1]:
        owner = owner[key]
    how = rng.randrange(4)
    if how == 0:
        del owner[path[-1]]
    elif how == 1 and isinstance(owner, list):
        owner.append(owner[path[-1]])
    elif how == 1 and isinstance(owner, dict):
        owner[rng.choice(("x", "names", "classes", "weights"))] = owner.pop(path[-1])
    else:
        owner[path[-1]] = rng.choice(VALUES)
    return tree


def spoilt_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, overwrite, cut, or repeat; the checksum is that of what comes out, where it can be."""
    return sealed(spoilt_anywhere(unsealed(data), rng))


def unsealed(data: bytes) -> bytes:
    """Return a file with nothing in the place of its checksum."""
    size = int.from_bytes(data[:8], "little")
    seal = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["fedgeom"])[-1]
    return data.replace(seal.encode(), BLANK.encode())


def spoilt_anywhere(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, overwrite, cut, or repeat."""
    made = bytearray(data)
    head = 8 + int.from_bytes(data[:8], "little")
    how = rng.randrange(5)
    if how == 0:
        return bytes(made[: rng.randrange(len(made))])
    if how == 1:
        start = rng.randrange(len(made))
        return bytes(made[:start] + made[start : start + 40] + made[start:])
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(head if how < 4 else len(made))
        made[at] = rng.randrange(256) if how == 2 else made[at] ^ (1 << rng.randrange(8))
    return bytes(made)


def spoilt_head(data: bytes, rng: random.Random) -> bytes:
    """Change what the header says of arrays: their shapes, types and places."""
    plain = unsealed(data)
    size = int.from_bytes(plain[:8], "little")
    head = json.dumps(changed(json.loads(plain[8 : 8 + size]), rng)).encode()
    return sealed(len(head).to_bytes(8, "little") + head + plain[8 + size :])


def spoilt_facts(data: bytes, rng: random.Random) -> bytes:
    """Change the facts, and leave the file in order otherwise."""
    method, _, facts = from_bytes(data)
    made = facts
    for _ in range(rng.randrange(1, 3)):
        made = changed(made, rng) if isinstance(made, dict) and made else made
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    head["__metadata__"]["fedgeom"] = json.dumps([FORMAT, method, made, BLANK])
    text = json.dumps(head).encode()
    return sealed(len(text).to_bytes(8, "little") + text + data[8 + size :])


def sealed(data: bytes) -> bytes:
    """Return a file with the checksum that belongs to it, as who spoils it on purpose would write it."""
    note = BLANK.encode()
    return data.replace(note, hashlib.sha256(data).hexdigest().encode()) if data.count(note) == 1 else data


def spoilt_arrays(data: bytes, rng: random.Random) -> bytes:
    """Give arrays other shapes, types, names or numbers, or take them away."""
    method, arrays, facts = from_bytes(data)
    name = rng.choice(sorted(arrays))
    array = np.array(arrays[name])
    how = rng.randrange(8)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[rng.choice(("x", *sorted(arrays)))] = arrays.pop(name)
    elif how == 2:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(DTYPES))
    elif how == 3:
        arrays[name] = array.reshape(rng.choice([(-1,), (1, -1), (-1, 1), (1, 1, -1)]))
    elif how == 4:
        arrays[name] = array[: len(array) // 2] if array.ndim else array[None]
    elif how == 5:
        arrays[name] = np.full(array.shape, rng.choice((np.nan, np.inf, -1.0, 0.0, 1e308)))
    elif how == 6:
        arrays[name] = np.zeros((0,) * rng.randrange(3))
    else:
        arrays[rng.choice(("x", "scales", "known/scores", "preparation/0/x"))] = array
    return to_bytes(method, arrays, facts)


WAYS = (spoilt_bytes, spoilt_head, spoilt_facts, spoilt_arrays)


def untidy(count: int, seed: int, folder: Path) -> tuple[Counter[str], int]:
    """Load and use so many spoilt files; return what was raised but `InputError`, and how many could be used."""
    rng = random.Random(seed)
    file = folder / "model.safetensors"
    kept = files()
    wrong: Counter[str] = Counter()
    read = 0
    for _ in range(count):
        name = rng.choice(sorted(kept))
        way = rng.choice(WAYS)
        data = way(kept[name], rng)
        file.write_bytes(data)
        try:
            model = fedgeom.load_model(file)
            with np.errstate(all="ignore"):
                model.predict(np.ones((2, 4)))
            read += 1
        except FedgeomError as error:
            if not isinstance(error, InputError):
                wrong[f"{name}, {way.__name__}: {type(error).__name__}: {str(error)[:80]}"] += 1
        except Exception as error:
            wrong[f"{name}, {way.__name__}: {type(error).__name__}: {str(error)[:80]}"] += 1
    return wrong, read


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("count", "seed"),
    [
        (2_000, 0),
        pytest.param(80_000, 1, marks=pytest.mark.full),
    ],
    ids=["2000", "80000"],
)
def test_a_spoilt_model_file_is_read_or_refused_in_words(count: int, seed: int, tmp_path: Path) -> None:
    wrong, read = untidy(count, seed, tmp_path)
    assert not wrong, "\n".join(f"{n} × {what}" for what, n in wrong.most_common())
    assert 0 < read < count  # some changes are harmless


@pytest.mark.parametrize("name", ["ridge", "prepared at a site", "fedavg"])
def test_every_flipped_bit_is_refused_in_words(name: str, tmp_path: Path) -> None:
    """A flipped bit of a number gave other predictions, without a word."""
    data = files()[name]
    rng = random.Random(0)
    head = 8 + int.from_bytes(data[:8], "little")
    flips = {rng.randrange(8 * len(data)) for _ in range(1500)} | {rng.randrange(8 * head) for _ in range(1500)}
    file = tmp_path / "model.safetensors"
    for at in flips:
        made = bytearray(data)
        made[at // 8] ^= 1 << at % 8
        file.write_bytes(made)
        with pytest.raises(InputError, match=r"damaged|not a fedgeom model file|has format"):
            fedgeom.load_model(file)


def test_files_of_earlier_releases_have_no_checksum_and_are_read() -> None:
    method, arrays, facts = from_bytes(files()["ridge"])
    note = {"fedgeom": json.dumps(["fedgeom-model/1", method, facts])}
    old = from_bytes(bytes(save(dict(arrays), metadata=note)))
    assert (old[0], old[2]) == (method, facts)


@pytest.mark.parametrize("spoil", ["fits", "width", "names"])
def test_a_preparation_whose_parts_do_not_fit_is_refused(spoil: str) -> None:
    """These failed only in predict, as KeyError and ValueError."""
    method, arrays, facts = from_bytes(files()["prepared at a site"])
    raw = facts["preparation"]["raw"]
    if spoil == "fits":
        arrays = {name: one for name, one in arrays.items() if not name.startswith("preparation/")}
    elif spoil == "width":
        raw["width"] = 2**62
        raw["names"] = []
    else:
        raw["width"] = 2**62
    with pytest.raises(InputError, match="preparation"):
        read_model(to_bytes(method, arrays, facts))


@pytest.mark.parametrize("name", ["ridge", "prepared", "prepared at a site", "hulls", "fedavg", "ellipses"])
def test_models_can_be_pickled_copied_and_dumped(name: str, tmp_path: Path) -> None:
    """They held memoryviews, which nothing of this takes."""
    model = read_model(files()[name])
    joblib.dump(model, tmp_path / "model.joblib")
    made = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")]
    for one in [*made, copy.copy(model)]:
        assert one.to_bytes() == model.to_bytes()
        np.testing.assert_array_equal(one.predict(np.ones((3, 4))), model.predict(np.ones((3, 4))))


def test_a_finished_run_can_be_pickled_and_copied() -> None:
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), sites(gaps=True), holdout=0.25)
    again = pickle.loads(pickle.dumps(run))
    assert again.model.to_bytes() == copy.deepcopy(run).model.to_bytes() == run.model.to_bytes()
    assert again.verdict == run.verdict
