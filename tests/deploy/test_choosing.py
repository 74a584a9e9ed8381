"""The method that is right for a file: by whether names are shared, and never silently."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_file import FederationFile, build_method
from fedgeom.deploy.method_selection import choose
from fedgeom.errors import InputError

SHARED, OWN, MIXED = [("a", "b"), ("b", "a")], [("a", "b"), ("x", "y")], [("a", "b", "c"), ("a", "y", "z")]


def sites(words: list[tuple[str, ...]], columns: int = 3) -> list[SiteData]:
    rng = np.random.default_rng(0)
    return [
        SiteData(f"s{at}", 0.2 * rng.uniform(size=(12, columns)), np.array(mine)[np.arange(12) % len(mine)])
        for at, mine in enumerate(words)
    ]


def settled(words: list[tuple[str, ...]], columns: int = 3, **said):
    found = choose("f.toml", FederationFile(**said), sites(words, columns))
    return build_method("f.toml", found.federation), found.reason


def test_shared_names_are_for_ridge() -> None:
    method, why = settled(SHARED)
    assert (method.name, [one.name for one in method.maps], method.balanced) == (
        "ridge",
        ["linear", "fourier"],
        True,
    )
    assert why == (
        'method ridge with features = ["linear", "fourier"], rule = "discriminant", balanced = true, alpha = "folds": '
        "2 sites have 2 label names each, 2 different ones in all, 2 of them at several sites, so names are taken to "
        "be shared (method and names in the file would say otherwise)"
    )
    assert settled(SHARED, parameters={"space": "euclidean"})[0].name == "moments"
    assert settled(SHARED, parameters={"features": "linear"})[0].features.name == "linear"


def test_own_names_are_for_ellipses() -> None:
    method, why = settled(OWN)
    assert (method.name, method.names, method.space, method.scale) == ("ellipses", "own", "euclidean", "joint")
    assert "0 of them at several sites, so names are taken to be the sites' own" in why


def test_settings_that_only_hulls_have_mean_hulls() -> None:
    method, why = settled(OWN, parameters={"embedding": "discriminant"})
    assert (method.name, method.names) == ("hulls", "own")
    assert why.startswith("method hulls: ")
    assert settled(OWN, parameters={"curvature": 2.0})[0].name == "ellipses"


def test_points_of_the_disc_stay_where_they_are() -> None:
    assert settled(SHARED, 2)[0].space == "ball"
    assert settled(OWN, 2)[0].space == "ball"


def test_the_file_wins() -> None:
    method, why = settled(SHARED, names="own")
    assert (method.name, method.names) == ("ellipses", "own")
    assert 'the file says names = "own" (method in the file would say otherwise)' in why
    assert settled(OWN, names="shared")[0].name == "ridge"
    assert settled(OWN, method="fedavg") == (settled(SHARED, method="fedavg")[0], "")
    assert settled(SHARED, parameters={"space": "ball"})[0].space == "ball"
    assert settled(SHARED, method="hulls", names="own", parameters={"embedding": "discriminant"})[1] == ""


def test_hulls_over_shared_names_go_by_the_words() -> None:
    method, why = settled(SHARED, method="hulls")
    assert method.names == "shared"
    assert why.startswith("method hulls: 2 sites have")
    for said in ({"n_classes": 2}, {"names": "own"}):
        method, why = settled(SHARED, method="hulls", parameters=said)
        assert (method.names, why) == ("own", "")


def test_sites_that_lack_classes_have_one_scale() -> None:
    lacking, maps = [("a", "b", "c"), ("x", "y")], {"embedding": "discriminant"}
    assert settled(lacking)[0].scale == "joint"
    method, why = settled(lacking, method="hulls", names="own", parameters=maps)
    assert method.scale == "joint"
    assert "sites have different numbers of classes" in why
    assert settled(lacking, method="hulls", names="own", parameters={**maps, "scale": "site"})[0].scale == "site"
    assert settled(lacking, 2, method="hulls", names="own")[0].scale == "auto"


@pytest.mark.parametrize("said", [{}, {"method": "hulls"}])
def test_words_that_are_neither_are_asked_about(said) -> None:
    with pytest.raises(
        InputError, match=r'f.toml: 2 sites have 3 .* 5 different .* 1 of them.*names = "shared".*"own"'
    ):
        settled(MIXED, **said)
    assert settled(MIXED, names="own", **said)[0].names == "own"
    assert settled(MIXED, method="moments")[1] == ""


def test_raw_tables_are_prepared_where_nothing_is_said() -> None:
    words = [replace(site, columns=("x", "arm", "z"), categories={"arm": ("a", "b")}) for site in sites(SHARED)]
    for site in words:
        site.X[:, 1] = np.arange(12) % 2
    gaps = sites(SHARED)
    gaps[1].X[3, 2] = np.nan
    for given, causes in ((words, "columns hold words ('arm'); "), (gaps, "rows have gaps; ")):
        found = choose("f.toml", FederationFile(), given)
        assert found.federation.prepare == "table"
        assert [step.name for step in build_method("f.toml", found.federation).prepare] == [
            "one-hot",
            "impute",
            "scale",
        ]
        assert found.reason.startswith('method ridge with prepare = "table", ')
        assert f": {causes}2 sites have" in found.reason
        assert "(method and names and prepare in the file would say otherwise)" in found.reason
        assert not choose("f.toml", FederationFile(method="fedavg"), given).federation.prepare
    assert not choose("f.toml", FederationFile(), sites(SHARED)).federation.prepare
    assert FederationFile().keeps_text
    assert not FederationFile(method="ridge").keeps_text


def test_raw_counts_are_prepared_where_nothing_is_said() -> None:
    rng = np.random.default_rng(2)
    genes = [f"g{at}" for at in range(300)]
    counts = [
        SiteData(f"s{at}", rng.poisson(0.3, size=(40, 300)).astype(float), np.arange(40) % 2, columns=genes)
        for at in range(3)
    ]
    found = choose("f.toml", FederationFile(), counts)
    assert found.federation.prepare == "counts"
    assert ": tables look like raw counts; 3 sites have" in found.reason
    logarithms = [replace(site, table=np.log1p(site.X)) for site in counts]
    found = choose("f.toml", FederationFile(), logarithms)
    assert found.federation.prepare == ["select-variable", "scale", "pca"]
    assert not choose("f.toml", FederationFile(), [counts[0], *logarithms[1:]]).federation.prepare  # told by check
