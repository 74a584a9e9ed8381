"""Changed rows of each site, put together."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import change_of
from fedgeom.errors import InputError


def site(name: str, rows: int, columns: int = 2) -> SiteData:
    return SiteData(name, np.ones((rows, columns)), np.repeat("a", rows))


def test_rows_to_add_and_to_take_out_are_one_table_with_signs() -> None:
    found = {one.name: one for one in change_of([site("a", 2), site("b", 1)], [site("a", 3)])}
    assert found["a"].extra["change"].tolist() == [1, 1, -1, -1, -1]
    assert found["b"].extra["change"].tolist() == [1]
    assert found["a"].table.shape == (5, 2)


def test_other_columns_are_refused() -> None:
    with pytest.raises(InputError, match="'a'"):
        change_of([site("a", 2)], [site("a", 2, columns=3)])
