"""The secure method against its plain twin, against lost sites, and against wrong input."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.messages import unpack
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.plain import plain
from fedgeom.methods.hulls.plan import HullPlan, decode_hulls, field_above, largest_order
from fedgeom.methods.hulls.site import count_of_level, level_of_count
from fedgeom.protocols.fixed_point import from_fixed

Sites = list[SiteData]

STEPS = [
    "join.hello",
    "join.share",
    "hulls.reach",
    "sum.confirm 0",
    "sum.unmask 0",
    "hulls.encode",
    "sum.confirm 1",
    "sum.unmask 1",
    "hulls.learn",
]


def blobs(
    n_sites: int = 3, classes: int = 3, rows: int = 30, seed: int = 0, spread: float = 0.15
) -> list[SiteData]:
    """Draw well separated classes in the disc, dealt to sites."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(classes) / classes
    centres = 0.9 * np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.concatenate([exp0(c + spread * rng.normal(size=(rows * n_sites, 2))) for c in centres])
    return fedgeom.split(X, np.repeat(np.arange(classes), rows * n_sites), n_sites, seed=seed)


def twin(run: fedgeom.Run, method: fedgeom.Hulls, points: list[np.ndarray]):
    return plain(
        [(X, site.y) for X, site in zip(points, run.sites, strict=True)],
        epsilon=method.epsilon,
        radius=run.metrics["radius"],
        n_classes=run.metrics["classes"],
        trim=method.trim,
        how=method.grouping,
        classifier=fedgeom.PoincareSVC(C=method.C, pairs=method.pairs, as_published=method.as_published),
    )


def assert_same(run: fedgeom.Run, other) -> None:
    assert np.array_equal(run.model.reference, other.classifier.reference_)
    assert np.array_equal(run.model.normal, other.classifier.coef_)
    assert np.array_equal(run.model.platt, other.classifier.platt_)
    ours = sorted(tuple(sorted(bins)) for bins in hulls_of(run))
    assert ours == sorted(tuple(sorted(bins.tolist())) for bins in other.hulls)


def hulls_of(run: fedgeom.Run) -> list[list[int]]:
    places, hull = run.artifacts["hull_bins"], run.artifacts["hull_of_point"]
    return [places[hull == k].tolist() for k in range(hull.max() + 1)]


@pytest.mark.parametrize("n_sites", [2, 3, 7])
@pytest.mark.parametrize("classes", [2, 4])
def test_secure_equals_plain_on_drawn_sites(n_sites: int, classes: int) -> None:
    sites = blobs(n_sites, classes)
    method = fedgeom.Hulls()
    run = fedgeom.run(method, sites, policy=fedgeom.Policy(smallest_cohort=2))
    assert_same(run, twin(run, method, [site.X for site in sites]))


@pytest.mark.parametrize("name", ["olsson", "poincare-cifar10", "poincare-fashion", "paul15"])
def test_secure_equals_plain_on_the_built_in_discs(name: str) -> None:
    from fedgeom.data.sets import load_set

    try:
        sites = load_set(name).train
    except InputError as missing:
        pytest.skip(str(missing))
    method = fedgeom.Hulls(least_points=1)
    run = fedgeom.run(method, sites)
    assert_same(run, twin(run, method, [site.X for site in sites]))


@pytest.mark.parametrize("name", ["breast-cancer", "wine", "digits", "hipc", "heart"])
def test_secure_equals_plain_on_the_built_in_tables(name: str) -> None:
    from fedgeom.data.sets import load_set

    try:
        sites = load_set(name).train
    except InputError as missing:
        pytest.skip(str(missing))
    method = fedgeom.Hulls(embedding="discriminant", least_points=1)
    run = fedgeom.run(method, sites)
    rounded = sum(joint_map.as_vector(joint_map.site_scatter(site.X, site.y), len(sites)) for site in sites)
    total = from_fixed(rounded, fraction_bits=joint_map.FRACTION_BITS)
    assert np.array_equal(joint_map.projection(total, sites[0].X.shape[1]), run.model.embedding)
    points = [run.model.named({}, site.X).to_disc(site.X) for site in sites]
    assert_same(run, twin(run, method, points))


def test_the_same_seed_gives_the_same_model_bytes_whatever_the_keys_and_the_order_of_sites() -> None:
    sites = blobs(4, 3)
    first = fedgeom.run(fedgeom.Hulls(), sites, seed=5).model.to_bytes()
    assert fedgeom.run(fedgeom.Hulls(), sites, seed=5).model.to_bytes() == first
    assert fedgeom.run(fedgeom.Hulls(), sites[::-1], seed=5).model.to_bytes() == first


@pytest.mark.parametrize("grouping", ["constrained", "spectral", "published"])
def test_sites_with_their_own_label_names_learn_what_each_means(grouping: str) -> None:
    words = [["rot", "grün", "blau"], ["red", "green", "blue"], ["3", "1", "2"]]
    sites = [site.relabel(dict(enumerate(w))) for site, w in zip(blobs(3, 3), words, strict=True)]
    run = fedgeom.run(fedgeom.Hulls(grouping=grouping), sites)
    meanings = [[run.local[site.name]["names"][word] for word in w] for site, w in zip(sites, words, strict=True)]
    assert meanings[0] == meanings[1] == meanings[2]
    assert sorted(meanings[0]) == [0, 1, 2]
    model = run.model.named(run.local[sites[0].name]["names"])
    translated = sites[1].relabel(dict(zip(words[1], words[0], strict=True)))
    assert np.mean(model.predict(translated.X) == translated.y) > 0.95


def test_sites_may_lack_classes() -> None:
    whole = blobs(4, 3)
    sites = [site.take(site.y != lacking) for site, lacking in zip(whole, [0, 1, 2, 9], strict=True)]
    run = fedgeom.run(fedgeom.Hulls(n_classes=3), sites)
    names = [run.local[site.name]["names"] for site in sites]
    assert [sorted(n) for n in names] == [["1", "2"], ["0", "2"], ["0", "1"], ["0", "1", "2"]]
    for local in names:
        assert all(names[3][label] == group for label, group in local.items())


def test_no_site_needs_to_have_all_classes() -> None:
    whole = blobs(3, 3)
    sites = [site.take(site.y != lacking) for site, lacking in zip(whole, [0, 1, 2], strict=True)]
    names = [result["names"] for result in fedgeom.run(fedgeom.Hulls(n_classes=3), sites).local.values()]
    merged: dict[str, set[int]] = {}
    for local in names:
        for label, group in local.items():
            merged.setdefault(label, set()).add(group)
    assert all(len(groups) == 1 for groups in merged.values())


def kill(victim: str, step: str):
    """Return an interference that loses the victim from this step on."""
    seen: dict[str, int] = {}
    dead = False

    def interfere(name: str, request: bytes) -> str | None:
        nonlocal dead
        kind = unpack(request).kind
        if name == victim:
            nth = seen.get(kind, 0)
            seen[kind] = nth + 1
            if step in (kind, f"{kind} {nth}"):
                dead = True
            return "the process was killed" if dead else None
        return None

    return interfere


@pytest.mark.parametrize("victim", range(5))
@pytest.mark.parametrize("step", STEPS)
def test_each_site_killed_at_each_step_leaves_the_rest_a_result(victim: int, step: str) -> None:
    sites = blobs(5, 2, rows=12)
    name = sites[victim].name
    run = fedgeom.run(fedgeom.Hulls(), sites, interfere=kill(name, step))
    assert run.lost == {name: "the process was killed"}
    others = [site for site in sites if site.name != name]
    counted = step.startswith(("sum.confirm 1", "sum.unmask 1", "hulls.learn"))  # its word was in already
    assert run.metrics["sites"] == (5 if counted else 4)
    expected = fedgeom.run(fedgeom.Hulls(radius=run.metrics["radius"]), sites if counted else others)
    assert np.array_equal(run.model.normal, expected.model.normal)
    assert np.array_equal(run.model.reference, expected.model.reference)


def test_too_many_lost_sites_abort_with_their_names() -> None:
    sites = blobs(5, 2, rows=12)

    def interfere(name: str, request: bytes) -> str | None:
        return "no power" if unpack(request).kind == "sum.confirm" and name in ("site-1", "site-2") else None

    with pytest.raises(TooFewSitesError, match="site-1: no power; site-2: no power"):
        fedgeom.run(fedgeom.Hulls(), sites, interfere=interfere)


def test_hulls_of_one_site_cannot_be_told_from_anothers() -> None:
    """Owner numbers follow the hidden order: over many runs each site has each number equally often."""
    sites = blobs(3, 2, rows=5)
    method = fedgeom.Hulls(radius=0.99, capacity=20, n_classes=2)
    keys = {tuple(sorted(hull)): k for k, site in enumerate(sites) for hull in bins_of(site, method)}
    counts = np.zeros((3, 3))
    for _ in range(60):
        run = fedgeom.run(method, sites)
        for hull, owner in zip(hulls_of(run), run.artifacts["owner_of_hull"].tolist(), strict=True):
            counts[keys[tuple(sorted(hull))], owner] += 0.5
    assert counts.sum(axis=0).tolist() == [60, 60, 60]
    expected = 20.0
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 23.5  # chi-square with 4 degrees of freedom, p = 1e-4


def bins_of(site: SiteData, method: fedgeom.Hulls) -> list[list[int]]:
    from fedgeom.geometry.hyperbolic.grid import PolarGrid
    from fedgeom.methods.hulls.plain import local_hulls

    grid = PolarGrid(method.epsilon, method.radius or 0.99)
    return [bins.tolist() for bins in local_hulls(site.X, site.y, grid, method.trim).values()]


def test_more_hulls_in_a_bin_than_h_are_noticed_not_guessed() -> None:
    point = np.array([[0.3, 0.1]] * 2)
    sites = [SiteData(f"s{k}", np.vstack([point, [[-0.5, 0.1 * k], [-0.6, 0.0]]]), [0, 0, 1, 1]) for k in range(4)]
    crowded = fedgeom.run(fedgeom.Hulls(h=4, trim=0.0), sites)
    assert crowded.metrics["crowded_bins"] == 0
    assert max(len(set(hull)) for hull in hulls_of(crowded)) == 2
    with pytest.raises(InputError, match=r"more than h=2 hulls met.*use a finer epsilon or a larger h"):
        fedgeom.run(fedgeom.Hulls(h=2, trim=0.0), sites)


def test_a_word_that_is_no_sum_of_labels_is_refused() -> None:
    plan = HullPlan(epsilon=0.5, radius=0.9, curvature=1.0, classes=2, blocks=3, capacity=4, h=2)
    word = plan.code.encode([5], [plan.labels.labels[0] + (plan.labels.max_terms + 1)])
    with pytest.raises(fedgeom.FedgeomError, match="no sum of labels"):
        decode_hulls(plan, word)


def test_the_plan_keeps_to_the_agreed_field() -> None:
    assert field_above(1000) > 1000
    with pytest.raises(InputError, match="agreed bound is 63 bits"):
        field_above(2**63)
    assert largest_order(2, 3, 10**6) == 6
    assert largest_order(10, 100, 10**6) < 6


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 99, 12345, 9_999_999])
def test_levels_round_counts_up_by_at_most_a_tenth(count: int) -> None:
    level = level_of_count(count)
    assert count <= count_of_level(level) <= 1.1 * count + 1
    assert level == 1 or count_of_level(level - 1) < count


BAD = {
    "outside the ball": (lambda s: s[1].X.__setitem__((4, 0), 1.5), "site-2.*4"),
    "not a number": (lambda s: s[2].X.__setitem__((3, 1), np.nan), "site-3.*row 3, column 1 is nan"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_points_are_refused_before_anything_is_sent(case: str) -> None:
    spoil, message = BAD[case]
    sites = blobs(3, 2)
    spoil(sites)
    asked: list[str] = []
    with pytest.raises(InputError, match=message):
        fedgeom.run(fedgeom.Hulls(), sites, watch=lambda event: asked.append(event.kind))
    assert asked == []


def test_other_bad_input_names_the_site_and_what_to_do() -> None:
    good = blobs(3, 2)
    X, y = good[0].X, good[0].y
    cases = [
        (
            [SiteData("a", X, np.zeros(len(X)))] * 1 + [SiteData("b", X, np.zeros(len(X)))],
            {},
            "one class.*n_classes",
        ),
        (
            [SiteData("a", X[:2], [0, 1]), *good],
            {},
            "'a' has classes with fewer than 2 rows: '0'",
        ),
        ([SiteData("a", X[:0], y[:0]), *good], {}, "'a' has no rows"),
        ([SiteData("a", np.zeros((4, 3)), [0, 0, 1, 1]), *good], {}, "'a'.*3 columns"),
        (good, {"n_classes": 9}, "missing everywhere"),
        ([SiteData("a", X, np.arange(len(X)) // 2), *good], {"n_classes": 2}, "'a' has 30 classes"),
        (good, {"epsilon": 1e-12}, "epsilon"),
        (good, {"radius": 0.2}, "site-1.*outside the agreed radius 0.2"),
        ([], {}, "no sites were given"),
        ([good[0], good[0]], {}, "site names must differ.*site-1"),
    ]
    for sites, changes, message in cases:
        with pytest.raises(InputError, match=message):
            fedgeom.run(fedgeom.Hulls(**changes), sites)


def test_unequal_dimensions_name_the_odd_site() -> None:
    rng = np.random.default_rng(0)
    sites = [SiteData(n, rng.normal(size=(9, d)), np.arange(9) % 2) for n, d in [("a", 4), ("b", 4), ("c", 5)]]
    with pytest.raises(InputError, match="most have 4, but site 'c' has 5"):
        fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites)


def test_two_sites_need_a_policy_that_says_so() -> None:
    with pytest.raises(TooFewSitesError, match="at least 3"):
        fedgeom.run(fedgeom.Hulls(), blobs(2, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"trim": 1.0}, "trim=1.0"),
        ({"n_classes": 1}, "at least 2"),
        ({"radius": 1.0}, "radius=1.0"),
        ({"grouping": "magic"}, "magic"),
        ({"embedding": "pca"}, "pca"),
    ],
)
def test_wrong_parameters_say_what_is_wanted(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fedgeom.Hulls(**changes)


def test_models_are_saved_and_loaded_without_change(tmp_path) -> None:
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), blobs(3, 3))
    path = tmp_path / "model.safetensors"
    run.model.save(path)
    again = fedgeom.load_model(path)
    X = run.sites[0].X
    assert np.array_equal(again.predict_proba(X), run.model.predict_proba(X))
    assert again.to_bytes() == run.model.to_bytes()
    named = run.model.named(run.local["site-1"]["names"], X)
    named.save(path)
    assert fedgeom.load_model(path).predict(X[:1]) == named.predict(X)[:1]
    with pytest.raises(InputError, match="not bound to a site"):
        run.model.predict(X[:1])
    path.write_bytes(b"no model")
    with pytest.raises(InputError, match="not a fedgeom model"):
        fedgeom.load_model(path)


def asked_by_hand(sites: Sites, method: fedgeom.Hulls, spoil):
    """Run with a coordinator that changes questions on their way, as a lying one could."""
    from fedgeom.engines.embedded import EmbeddedEngine
    from fedgeom.federation.conversation import Sites as Conversation

    engine = EmbeddedEngine(method, sites)
    honest = engine.deliver
    engine.deliver = lambda requests: honest(spoil(requests))  # type: ignore[method-assign]
    conversation = Conversation(engine, run=bytes(32), method=method.name, roster=engine.roster)
    with contextlib.suppress(fedgeom.FedgeomError):
        method.conduct(conversation)
    return conversation


@pytest.mark.parametrize("block", range(3))
def test_a_result_that_leaves_one_block_out_is_not_refused_by_its_owner(block: int) -> None:
    """A refusal that only the owner of a block gives would tell the coordinator whose it is."""
    from fedgeom.federation.messages import decode, pack
    from fedgeom.methods.hulls.messages import Learn

    def spoil(requests):
        changed = {}
        for name, request in requests.items():
            frame = unpack(request)
            if frame.kind == Learn.kind:
                learn = decode(frame.body, Learn)
                groups = tuple(-1 if at // 2 == block else g for at, g in enumerate(learn.groups))
                request = pack(frame.run, frame.method, Learn(groups=groups, model=learn.model))
            changed[name] = request
        return changed

    assert asked_by_hand(blobs(3, 2), fedgeom.Hulls(), spoil).lost == {}


def test_a_coordinator_cannot_ask_for_more_sums_than_the_terms_need() -> None:
    from fedgeom.federation.messages import decode, pack
    from fedgeom.protocols.cohort import Hello

    def spoil(requests):
        changed = {}
        for name, request in requests.items():
            frame = unpack(request)
            if frame.kind == Hello.kind:
                hello = decode(frame.body, Hello)
                request = pack(frame.run, frame.method, Hello(rounds=hello.rounds + 1, terms=hello.terms))
            changed[name] = request
        return changed

    lost = asked_by_hand(blobs(3, 2), fedgeom.Hulls(), spoil).lost
    assert len(lost) == 3
    assert all("need 2 sums, not 3" in reason for reason in lost.values())
