"""Real messages of real runs, and ways to spoil them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import math
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import msgspec
import numpy as np

import fedgeom
from fedgeom.crypto.neighbours import COMPLETE_UP_TO
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.engines.run import change_of, update_method
from fedgeom.errors import DecodeError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import DTYPES, VERSION, Message, Question, decode, encode, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.runner import SiteRunner
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.ridge.image_features import Conv
from fedgeom.methods.ridge.update import RidgeUpdate
from fedgeom.protocols.secure_sum.messages import SumQuestion, hash_question
from fedgeom.testing.rehearsal import twins
from tests.protocols.naming import Naming

RUN = bytes(range(32))


@dataclass(frozen=True)
class Exchange:
    """One question and its answer, as they travelled, with what the site remembered before and after."""

    runner: SiteRunner
    request: bytes
    before: bytes | None
    reply: bytes
    after: bytes

    @property
    def question(self) -> type[Question]:
        """The question's type."""
        return self.runner.site.understands()[unpack(self.request).kind]

    @functools.cached_property
    def twin(self) -> SiteRunner:
        """The same site with other rows, other labels and fewer of both."""
        own = self.runner
        data = twins([own._data()])["rows and labels"][0]
        fewer = data.take(np.arange(len(data) - 3))
        return SiteRunner(own.site, own.method, own.identity, lambda: fewer)


def small_sites(n: int = 3) -> list[SiteData]:
    """Return small sites with two classes each."""
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes"], 10)
    return [
        SiteData(name, np.where(y == "no", -0.4, 0.4)[:, None] + 0.1 * rng.uniform(size=(20, 2)), y)
        for name in ("anna", "bert", "carl", "dora", "erik", "frida")[:n]
    ]


def sites_for(method: Method) -> list[SiteData]:
    """Return three sites, or six for a method that sums half of the sites, or compares sites: a sum needs three."""
    if isinstance(method, RidgeUpdate):
        return change_of(small_sites(), [])
    if isinstance(method, fedgeom.Cox | fedgeom.KaplanMeier):
        return followed_sites()
    if method.preparing:
        return raw_sites(3 if len(method.preparing) > 1 else 40)
    many = getattr(method, "participation", 1.0) < 1.0 or isinstance(method, fedgeom.Regression)
    return small_sites(6 if many else 3)


def raw_sites(columns: int) -> list[SiteData]:
    """Return small sites with named columns; the second has codes."""
    rng, names = np.random.default_rng(0), ("a", "b", *(f"c{at}" for at in range(2, columns)))
    found = []
    for site in small_sites():
        X = 3 + np.column_stack([site.X, rng.random((len(site), columns - 2))])
        X[:, 1] = np.arange(len(site)) % 3
        found.append(SiteData(site.name, X, site.y, columns=names))
    return found


def followed_sites() -> list[SiteData]:
    """Return small sites with times and events; the second column has codes."""
    found = []
    for at, site in enumerate(raw_sites(2)):
        time = 1.0 + (7 * np.arange(len(site)) + at) % 11
        found.append(dataclasses.replace(site, extra={"time": time, "event": np.arange(len(site)) % 3 > 0}))
    return found


def record(method: Method, sites: list[SiteData] | None = None, policy: Policy | None = None) -> list[Exchange]:
    """Hold a whole run and keep every message of it."""
    engine = EmbeddedEngine(method, sites or sites_for(method), policy=policy)
    kept: list[Exchange] = []
    honest = {name: runner.answer for name, runner in engine.runners.items()}

    def listen(name: str, request: bytes, memory: bytes | None) -> tuple[bytes, bytes]:
        reply, after = honest[name](request, memory)
        kept.append(Exchange(engine.runners[name], request, memory, reply, after))
        return reply, after

    for name, runner in engine.runners.items():
        runner.answer = functools.partial(listen, name)  # type: ignore[method-assign]
    conversation = Coordinator(engine, run=RUN, method=method.name, roster=engine.roster)
    model = method.conduct(conversation)
    if conversation.last_step is not None:
        conversation.last_step(model)
    for runner in engine.runners.values():
        del runner.answer  # type: ignore[method-assign]
        runner.fail = _fail  # type: ignore[method-assign]
    return kept


def _fail(run: bytes, error: Exception) -> tuple[bytes, bytes]:
    """A site leaves a run over what nobody expected; here that is a failure, for nothing should be unexpected."""
    raise error


def updating() -> Method:
    """Return an update of a small ridge."""
    ridge = fedgeom.Ridge(updatable=True)
    return update_method(ridge, fedgeom.run(ridge, small_sites()))


SPOILT: tuple[Method, ...] = (
    fedgeom.Hulls(epsilon=0.1),
    fedgeom.Hulls(epsilon=0.1, embedding="discriminant"),
    fedgeom.Hulls(epsilon=0.1, embedding="discriminant", names="shared"),
    fedgeom.Ellipses(),
    fedgeom.Ellipses(n_classes=2, depth="mixed"),
    fedgeom.Moments(holdout=0.25),
    fedgeom.Ridge(
        personal=True,
        features=["linear", Conv(n_filters=3, patch_size=2, padding=1, pools=1, means=0, n_rounds=1, min_cell=1)],
        shape=(2, 1, 1),
    ),
    updating(),
    fedgeom.Apple(n_rounds=1, steps=2),
    fedgeom.Regression(classes=("no", "yes"), ridge=0.5, errors="robust"),
    fedgeom.Moments(classes=("no", "yes"), holdout=0.25, privacy=fedgeom.DP(epsilon=1, clip=1)),
    fedgeom.Ridge(classes=("no", "yes"), privacy=fedgeom.DP(epsilon=1, clip=1)),
    fedgeom.FedAvg(
        n_rounds=1,
        steps=1,
        batch_size=None,
        scale="none",
        classes=("no", "yes"),
        privacy=fedgeom.DP(epsilon=1, clip=1),
    ),
    fedgeom.Ridge(
        features="linear",
        prepare=[
            {"name": "one-hot", "columns": ["b"], "min_rows": 2},
            {"name": "impute", "bits": 12},
            {"name": "select-variable", "n_columns": 2, "flavor": "sites"},
            "scale",
            {"name": "pca", "n_components": 1},
        ],
    ),
    fedgeom.Moments(prepare=[{"name": "pca", "n_components": 1, "exact_columns": 1}], space="euclidean"),
    fedgeom.Describe(per_site=True, bits=12, quantiles=(0.5,)),
    fedgeom.Cox(),
    fedgeom.Cox(stratify="site"),
    fedgeom.KaplanMeier(by="b"),
    fedgeom.XCLP(hash_bits=64, hamming="bfv" if importlib.util.find_spec("seal") else "ot"),
    fedgeom.PoincareMap(n_landmarks=4, min_cell=1),
    fedgeom.XCLP(graph="anchors", n_anchors=4, n_rounds=2, min_cell=1, confidence="code"),
    fedgeom.XCLPTraining(
        n_rounds=2, warmup_rounds=1, steps=1, labels={"name": "xclp", "n_anchors": 4, "steps": 1, "min_cell": 1}
    ),
    fedgeom.XCLPTraining(
        n_rounds=3,
        warmup_rounds=1,
        steps=1,
        validation_fraction=0.25,
        labels={"name": "xclp", "n_anchors": 4, "steps": 1, "min_cell": 1},
    ),
    fedgeom.Scaffold(n_rounds=2, steps=2, participation=0.5),
    fedgeom.FedAvg(n_rounds=1, steps=2, secure=False),
    fedgeom.FedAvg(n_rounds=1, steps=2, scale="none"),
    fedgeom.Shrunk(n_rounds=2, n_folds=2),
    *(
        [fedgeom.HyperFed(n_rounds=1, steps=2, network=None, head="linear", loss="cross-entropy")]
        if importlib.util.find_spec("seal")
        else []
    ),
    *(
        fedgeom.PTopoFL(**{"n_rounds": 1, "steps": 2, "n_clusters": 1} | changes)
        for changes in (
            {},
            {"epsilon": 1.0},
            {"n_rounds": 2, "descriptor_input": "activations", "first_descriptor_round": 1},
        )
        if importlib.util.find_spec("gudhi")
    ),
)
"""The methods whose messages are spoilt: a new one is one more line."""


def record_draw() -> list[Exchange]:
    """Keep what the first site says while so many join that the ring is drawn."""
    method, rng, y = fedgeom.Moments(), np.random.default_rng(0), np.repeat(["no", "yes"], 3)
    sites = [SiteData(f"s{at:02d}", 0.3 * rng.uniform(size=(6, 2)), y) for at in range(COMPLETE_UP_TO + 1)]
    kept = [e for e in record(method, sites) if e.runner.identity.name == sites[0].name]
    return [exchange for exchange in kept if unpack(exchange.request).kind.startswith("join.")]


def record_groups() -> list[Exchange]:
    """Keep what the first site says where sites are drawn into groups."""
    rng, y = np.random.default_rng(0), np.repeat(["no", "yes"], 6)
    sites = [SiteData(f"s{at}", 0.3 * rng.uniform(size=(12, 2)), y) for at in range(9)]
    groups = GroupMedian(n_groups=3)
    methods: tuple[Method, ...] = (
        fedgeom.Moments(aggregation=groups),
        fedgeom.FedAvg(n_rounds=1, steps=2, aggregation=groups),
        fedgeom.FedAvg(n_rounds=1, steps=2, aggregation=groups, scale="none"),
    )
    kept = [exchange for method in methods for exchange in record(method, sites)]
    return [exchange for exchange in kept if exchange.runner.identity.name == "s0"]


@functools.cache
def exchanges() -> tuple[Exchange, ...]:
    """Return the messages of a few whole runs, both directions, every kind of question among them."""
    usual = (exchange for method in SPOILT for exchange in record(method))
    counted = record(fedgeom.Moments(), policy=Policy(single_site_classes=False))
    counted += record(fedgeom.Ridge(features="binned"), policy=Policy(single_site_classes=False))  # type: ignore[arg-type]
    return (*usual, *record_draw(), *record_groups(), *counted, *record(Naming()))


# --- spoiling ---

BOMBS = [
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xcf" + b"\xff" * 8, b"\xc1",
    b"\x91" * 2000, b"\x81\x01" * 500,
]  # fmt: skip

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**62, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1e-300, 1e300, 0.5,
    float("nan"), float("inf"), float("-inf"), "", "x", "\x00", "anna", "zoe", "9" * 20, "𝔘" * 300, b"",
    b"\x00", bytes(31), bytes(32), bytes(33), bytes(64), b"\xff" * 5000, [], {}, [None] * 100, ["anna", "anna"],
    {"anna": b""}, {"": 0}, [[[[[[]]]]]], {"a": {"b": {"c": {}}}}, list(range(1000)),
]  # fmt: skip


def spoil_bytes(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Change bytes without looking at what they mean."""
    how, spoilt = rng.randrange(6), bytearray(data)
    if how == 0:
        for _ in range(rng.randint(1, 8)):
            spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    elif how == 1:
        del spoilt[rng.randrange(len(spoilt)) :]
    elif how == 2:
        other = rng.choice(others)
        spoilt[rng.randrange(len(spoilt)) :] = other[rng.randrange(len(other)) :]
    elif how == 3:
        start = rng.randrange(len(spoilt))
        del spoilt[start : start + rng.randint(1, 40)]
    elif how == 4:
        at = rng.randrange(len(spoilt) + 1)
        start = rng.randrange(len(spoilt))
        spoilt[at:at] = rng.choice([rng.randbytes(rng.randint(1, 20)), spoilt[start : start + rng.randint(1, 60)]])
    else:
        bomb = rng.choice(BOMBS)
        at = rng.randrange(len(spoilt) + 1)
        spoilt[at : at + rng.choice([0, len(bomb)])] = bomb
    return bytes(spoilt)


def spoil_tree(tree: Any, others: list[Any], rng: random.Random) -> Any:
    """Change one place in decoded content: another value, a missing or new field, something said twice."""
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        key = rng.choice(list(tree))
        changed = dict(tree)
        how = rng.randrange(10)
        if how == 0:
            del changed[key]
        elif how == 1:
            changed[rng.choice(["extra", "", "kind", *map(str, tree)]) + "x"] = rng.choice(ODD)
        elif how == 2:
            changed[rng.choice(["anna", "zoe", "bert"])] = changed[key]
        elif how == 3:
            other = rng.choice(list(tree))
            changed[key], changed[other] = changed[other], changed[key]
        else:
            changed[key] = spoil_tree(tree[key], others, rng)
        return changed
    if isinstance(tree, list) and tree and rng.random() < 0.85:
        at = rng.randrange(len(tree))
        how = rng.randrange(6)
        if how == 0:
            return [*tree[:at], *tree[at + 1 :]]
        if how == 1:
            return [*tree, tree[at]]
        if how == 2:
            return tree[::-1]
        if how == 3:
            return tree * rng.choice([2, 300])
        return [*tree[:at], spoil_tree(tree[at], others, rng), *tree[at + 1 :]]
    if isinstance(tree, bytes) and tree and rng.random() < 0.6:
        return spoil_bytes(tree, [tree], rng)
    if isinstance(tree, int | float) and not isinstance(tree, bool) and rng.random() < 0.6:
        near = [tree + 1, tree - 1, -tree, tree * 2, tree * 1000, tree * 0.5, float(tree), str(tree)]
        return rng.choice([*near, 6, 32, 64, 4096, 100_000, 10_000_000, 1e-6, 1e-12])
    return rng.choice([*ODD, rng.choice(others)])


def arrays_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where arrays are in decoded content."""
    if isinstance(tree, dict) and set(tree) == {"dtype", "shape", "data"}:
        yield path
    elif isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from arrays_in(value, (*path, key))


def other_array(array: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return another array that can be read: of another shape, another type, another length, or other numbers."""
    dtype, shape, data = array["dtype"], list(array["shape"]), bytes(array["data"])
    values = np.frombuffer(data, DTYPES[dtype]).reshape(shape)
    how = rng.randrange(8)
    if how == 0:  # the same numbers in another shape
        n = values.size
        half = n // 2 if n % 2 == 0 else n
        shapes = [
            (n,),
            (1, n),
            (n, 1),
            (1, 1, n),
            (1, n, 1, 1),
            (half, n // half if half else 1),
            tuple(shape[::-1]),
        ]
        values = values.reshape(rng.choice([one for one in shapes if math.prod(one) == n]))
    elif how == 1:
        return _cut(data, rng)
    elif how == 2:
        values = values.astype(DTYPES[rng.choice(sorted(DTYPES))])
    elif how == 3:
        empty = [(0,), (), (0, 3), (3, 0), (0, 0), (1, 0, 1)]
        one = rng.choice(empty)
        values = np.zeros(one, values.dtype)
    elif how == 4:  # more or fewer along an axis
        axis = rng.randrange(max(values.ndim, 1))
        rows = np.atleast_1d(values)
        count = rows.shape[axis] + rng.choice([-2, -1, 1, 2, 40])
        values = np.take(rows, np.arange(max(count, 0)), axis=axis, mode="wrap") if rows.size else rows
    elif how == 5:
        values = np.zeros_like(values) if rng.random() < 0.5 else -values.astype(values.dtype)
    else:  # numbers that nobody works with
        values = values.copy()
        floats = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -1.0, 1e20]
        ints = [0, 1, 2**7, 2**15, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)]
        odd = rng.choice(floats if values.dtype.kind == "f" else ints)
        with np.errstate(all="ignore"):
            bits = 8 * values.dtype.itemsize
            one = odd if values.dtype.kind == "f" else odd % 2**bits
            one = one - 2**bits if values.dtype.kind == "i" and one >= 2 ** (bits - 1) else one
            flat = values.reshape(-1)
            if flat.size:
                flat[rng.randrange(flat.size) if how == 6 else slice(None)] = one
    values = np.asarray(values)
    code = f"{values.dtype.kind}{values.dtype.itemsize}"
    return {"dtype": code, "shape": list(values.shape), "data": values.astype(DTYPES[code]).tobytes()}


def _cut(data: bytes, rng: random.Random) -> dict[str, Any]:
    """Return the same bytes as numbers of another type."""
    dtype = rng.choice(sorted(DTYPES))
    size = np.dtype(DTYPES[dtype]).itemsize
    whole = len(data) // size
    return {"dtype": dtype, "shape": [whole], "data": data[: whole * size]}


def spoil_arrays(data: bytes, rng: random.Random) -> bytes:
    """Put other arrays, which can be read, in the place of one or a few of a framed message."""
    frame = unpack(data)
    content = msgspec.msgpack.decode(frame.body)
    places = list(arrays_in(content))
    for path in rng.sample(places, min(len(places), rng.choice([1, 1, 1, 2]))):
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = other_array(inner[path[-1]], rng)
    return pack_body(frame.run, frame.method, frame.kind, msgspec.msgpack.encode(content))


def twice(body: bytes, rng: random.Random) -> bytes:
    """Say a field of a message twice, which no honest encoder does."""
    fields = msgspec.msgpack.decode(body)
    if not isinstance(fields, dict) or not 0 < len(fields) < 15:
        return body
    key = rng.choice(list(fields))
    again = msgspec.msgpack.encode(key) + msgspec.msgpack.encode(rng.choice([fields[key], *ODD[:20]]))
    return bytes([0x80 + len(fields) + 1]) + body[1:] + again


def spoil(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Spoil a framed message in one of many ways."""
    if rng.random() < 0.25:
        return spoil_arrays(data, rng)
    frame, how = unpack(data), rng.randrange(10)
    if how < 4:
        return spoil_bytes(data, others, rng)
    other = unpack(rng.choice(others))
    if how == 4:
        fields = {f: getattr(frame, f) for f in frame.__struct_fields__}
        stray = rng.choice(["version", "run", "method", "kind"])
        fields[stray] = rng.choice([VERSION + 1, bytes(32), getattr(other, stray), *ODD])
        return msgspec.msgpack.encode(fields)
    if how == 5:
        body = twice(frame.body, rng)
    elif how == 6:
        body = spoil_bytes(frame.body, [other.body], rng)
    else:
        content, foreign = msgspec.msgpack.decode(frame.body), msgspec.msgpack.decode(other.body)
        body = msgspec.msgpack.encode(spoil_tree(content, [foreign], rng))
    return pack_body(frame.run, frame.method, frame.kind, body)


def restamp(data: bytes, kind: type[Question]) -> bytes:
    """Make a spoilt question's ticket out anew, as a lying coordinator would; what it cannot, stays."""
    try:
        frame = unpack(data)
        question = decode(frame.body, kind)
    except DecodeError:
        return data
    if not isinstance(question, SumQuestion):
        return data
    ticket = msgspec.structs.replace(question.ticket, question_hash=hash_question(question))
    body = encode(msgspec.structs.replace(question, ticket=ticket))
    return pack_body(frame.run, frame.method, frame.kind, body)


def read(data: bytes, kind: type[Message]) -> Message | None:
    """Decode a framed message, or nothing."""
    try:
        return decode(unpack(data).body, kind)
    except DecodeError:
        return None


class HungError(BaseException):
    """A message took longer than any message may; no site takes it for a fault of its own."""


@contextlib.contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Raise `HungError` when the work inside takes more processor time: on a busy machine that is the same."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HungError(f"a message took more than {seconds:g} s of the processor")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
