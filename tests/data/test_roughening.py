"""Raw tables made from clean ones."""

from __future__ import annotations

import numpy as np

from fedgeom.data.demo_data import EXTRA, LABEL, as_raw_text, cuts_of
from fedgeom.data.readers import read_site
from fedgeom.data.sites import SiteData


def test_a_clean_table_becomes_a_raw_one(tmp_path):
    rng = np.random.default_rng(0)
    clean = SiteData("s", rng.normal(size=(200, 5)), ["a", "b"] * 100, columns=tuple("vwxyz"))
    (tmp_path / "s.csv").write_text(as_raw_text(clean, cuts_of([clean]), rng, extra=True))
    raw = read_site(tmp_path / "s.csv", label=LABEL, text=True)
    assert set(raw.columns) == {*"vwxyz", EXTRA}
    assert raw.categories["v"] == ("high", "low", "middle")
    assert 0.03 < np.isnan(raw.X).mean() < 0.1
    at = raw.columns.index("y")
    there = np.isfinite(raw.X[:, at])
    np.testing.assert_allclose(raw.X[there, at], clean.X[there, 3], rtol=1e-3)
