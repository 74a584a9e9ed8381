"""What a site finds in its own data before it joins."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fedgeom.data.findings import FaultsError
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.protocols.joining.own_data import look_at_own_data


def test_all_that_is_wrong_or_odd_is_said_at_once():
    whole = SiteData("north", np.arange(30.0)[:, None], ["ill"] * 30, columns=("patient",))

    def examine(settings, seed):
        raise InputError(f"rows do not fit {settings} at seed {seed}")

    with pytest.raises(FaultsError) as caught:
        look_at_own_data(SimpleNamespace(name="north", examine=examine, whole=whole), "the method", 7)
    fault, *odd = caught.value.findings
    assert (fault.level, fault.sites) == ("error", ("north",))
    assert "rows do not fit the method at seed 7" in fault.what
    assert any("number the rows" in one.what for one in odd)


def test_a_table_that_fits_is_not_spoken_of():
    look_at_own_data(SimpleNamespace(name="north", examine=lambda settings, seed: None, whole=None), None, 0)
