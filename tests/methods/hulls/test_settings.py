"""The settings of Hulls: what they may be, numbers from NumPy, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom import Hulls
from fedgeom.errors import InputError
from fedgeom.methods.hulls.messages import EncodeHulls, HullExtent, SumScatter
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.methods.hulls.site import HullSite
from fedgeom.protocols.preparation import SumFloors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 given; wanted a number above 0"),
        ({"epsilon": np.nan}, "epsilon=nan"),
        ({"epsilon": True}, "epsilon=True"),
        ({"trim": 1.0}, "trim=1.0"),
        ({"trim": "often"}, "trim='often'.*'auto'"),
        ({"n_classes": 1}, "n_classes=1 given; wanted a whole number from 2 to 4096 or one of 'most' or None"),
        ({"n_classes": 2.0}, "n_classes=2.0"),
        ({"C": -1}, "C=-1"),
        ({"n_pairs": 0}, "n_pairs=0"),
        ({"h": 33}, "h=33"),
        ({"min_rows": -1}, "min_rows=-1"),
        ({"h": 9, "names": "shared"}, "h=9 given with names=.shared.; wanted 8 at most"),
        (
            {"n_classes": 3, "names": "shared"},
            "n_classes=3 given with names=.shared.; the classes are then the names",
        ),
        ({"classes": ("a", "b")}, "classes=.* given with names=.own."),
        ({"radius": 1.0}, "radius=1.0.*the edge of the disc"),
        ({"radius": 0.6, "curvature": 4.0}, "radius=0.6 given; wanted less than 0.5"),
        ({"grouping": "magic"}, "magic"),
        ({"embedding": "pca"}, "pca"),
        ({"as_published": 1}, "as_published=1 given; wanted True or False"),
    ],
)
def test_wrong_settings_say_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hulls(**changes)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InputError, match="no setting 'epsilom'"):
        HullSettings.from_terms({"epsilom": 0.1})


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"epsilon": np.float64(0.1)}, {"epsilon": 0.1}),
        ({"epsilon": np.float32(0.5), "C": np.int64(2)}, {"epsilon": 0.5, "C": 2.0}),
        ({"n_classes": np.int64(3), "n_pairs": np.uint8(2)}, {"n_classes": 3, "n_pairs": 2}),
        ({"as_published": np.bool_(True)}, {"as_published": True}),
        ({"grouping": np.str_("spectral")}, {"grouping": "spectral"}),
        ({"trim": 0}, {"trim": 0.0}),
    ],
)
def test_numbers_from_numpy_are_settings_like_any_other(given: dict[str, Any], same: dict[str, Any]) -> None:
    one, other = Hulls(**given), Hulls(**same)
    assert one == other
    for key, value in same.items():
        assert type(one.terms()[key]) is type(value)


def test_terms_travel_and_come_back() -> None:
    method = Hulls(epsilon=0.05, n_classes=3, trim=0.1, radius=0.9, embedding="discriminant")
    assert Hulls.from_terms(method.terms()) == method
    own = {
        name: value for name, value in method.terms().items() if name not in ("holdout", "prepare")
    }  # every method's
    assert HullSettings.from_terms(own).terms() == own


def test_what_the_settings_settle_need_not_be_summed() -> None:
    settled = {"radius": 0.9, "capacity": 50, "n_classes": 2}
    assert Hulls(**settled).settled  # type: ignore[arg-type]
    plans = {
        (): (HullExtent, EncodeHulls),
        ("settled",): (EncodeHulls,),
        ("map",): (SumFloors, SumScatter, HullExtent, EncodeHulls),
        ("settled", "map"): (SumFloors, SumScatter, EncodeHulls),
    }
    for kinds, wanted in plans.items():
        changes: dict[str, Any] = settled if "settled" in kinds else {}
        method = Hulls(**changes, embedding="discriminant" if "map" in kinds else "none")
        assert method.maps == ("map" in kinds)
        assert tuple(HullSite.all_sums(method)) == wanted
    for key in settled:
        assert not Hulls(**(settled | {key: None})).settled  # type: ignore[arg-type]


def test_the_papers_own_settings() -> None:
    published = Hulls.published(epsilon=0.1)
    assert (published.trim, published.C, published.grouping) == (0.0, 0.1, "published")
    assert published.as_published
    assert published.epsilon == 0.1
