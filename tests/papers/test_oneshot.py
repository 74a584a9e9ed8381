"""How papers/oneshot deals images to sites, and the page that it writes."""

from __future__ import annotations

import numpy as np
import pytest

from papers.oneshot import clinical, niid

Y = np.random.default_rng(0).integers(0, 10, 3000)


@pytest.mark.parametrize(("column", "classes"), [("one", 1), ("two", 2), ("three", 3), ("iid", 10)])
def test_sites_have_as_many_classes_as_the_column_says(column: str, classes: int) -> None:
    owner = niid.owners(Y, column, seed=0)
    assert [len(np.unique(Y[owner == site])) for site in range(niid.SITES)] == [classes] * niid.SITES


@pytest.mark.parametrize("alpha", ["0.05", "0.1", "0.5"])
def test_no_site_is_left_without_rows(alpha: str) -> None:
    owner = niid.owners(Y, f"dirichlet-{alpha}", seed=0)
    assert np.bincount(owner, minlength=niid.SITES).min() >= 10
    shares = np.array(
        [np.bincount(owner[label == Y], minlength=niid.SITES).max() / (label == Y).sum() for label in range(10)]
    )
    assert shares.mean() > 0.3  # far from even


def test_the_page_has_what_is_known_and_what_others_published() -> None:
    facts = {"images": 9, "features": 3, "alpha": 1.0, "questions": 4, "MB sent by a site": 1.5, "CPU seconds": 2}
    text = niid.page({"one": {"accuracy": 91.234, **facts}})
    assert "| Ridge, learnt convolutions | **91.23** |" in text
    assert "| FedProx (niid-bench of Flower) | 38.00 |" in text
    assert "Dirichlet" not in text


def test_clinical_tables_are_raw_and_the_page_has_all_models() -> None:
    sites, codes = clinical.heart()
    assert len(sites) == 4
    assert any(np.isnan(site.X).any() for site in sites)
    assert set(codes) <= set(sites[0].columns)
    regions, _ = clinical.eicu()
    assert regions[0].categories["unit_type"]
    figures = {model: {"mean": 80.0, "ci95": 1.0, "n": 3, "paper": None} for model in clinical.MODELS}
    row = {"sites": 4, "rows": 920, "columns": 13, "features": 30, "gaps": 14.6}
    text = clinical.page({"heart": row | dict.fromkeys(clinical.METRICS, figures)})
    assert "| heart disease, 4 hospitals | 4 | 920 | 13 → 30 | 14.6 % | AUC (n = 3) | 80.0 ± 1.0 |" in text
