"""The picture of a run."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.report.disc import draw_disc


@pytest.mark.parametrize("kind", ["case", "disc_case"])
def test_picture(kind, request, tmp_path):
    run, data, truth = request.getfixturevalue(kind)
    path = draw_disc(
        run, data.train, tmp_path / "new" / "a.png", test_sites=data.test, truth=truth or None, dpi=60
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    again = draw_disc(run, data.train, tmp_path / "b.png", test_sites=data.test, truth=truth or None, dpi=60)
    assert path.read_bytes() == again.read_bytes()


def test_picture_without_tests_and_with_many_sites(disc_case, tmp_path):
    X, y = (np.concatenate([getattr(site, part) for site in disc_case.data.train]) for part in "Xy")
    sites = fedgeom.split(X, y, n_sites=13)
    run = fedgeom.run(fedgeom.Hulls(), sites, seed=0)
    assert draw_disc(run, sites, tmp_path / "a.svg").stat().st_size > 0


def test_nothing_written_in_the_picture_runs_into_its_neighbour(disc_case, tmp_path, monkeypatch):
    """With more than 11 sites, titles of discs and the two headings overlapped."""
    from matplotlib.figure import Figure

    X, y = (np.concatenate([getattr(site, part) for site in disc_case.data.train]) for part in "Xy")
    names = [f"Universitätsklinikum Nr. {i:02d} Nordrhein" for i in range(13)]
    sites = fedgeom.split(X, y, n_sites=13, names=names)
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    draw_disc(fedgeom.run(fedgeom.Hulls(), sites, seed=0), sites, tmp_path / "a.png")
    drawn[0].canvas.draw()
    written = [axes.title for axes in drawn[0].axes if axes.title.get_text()] + drawn[0].texts
    boxes = [one.get_window_extent() for one in written]
    assert len(boxes) == 12 + 3
    crossing = [
        (a.get_text(), b.get_text())
        for i, a in enumerate(written)
        for j, b in enumerate(written[:i])
        if boxes[i].overlaps(boxes[j])
    ]
    assert not crossing
