"""The section on privacy."""

from __future__ import annotations

import shutil

from fedgeom.report.privacy import exposure, spent
from fedgeom.report.run_folder import read_run
from tests.report.folders import folder_of


def test_corners_are_counted_class_by_class(case, tmp_path):
    run = read_run(shutil.copytree(case.run.folder, tmp_path / "run"))
    made = exposure(run)
    groups = run.artifacts["group_of_hull"][run.artifacts["hull_of_point"]]
    assert f'<td class="n">{(groups == 0).sum()}</td>' in made
    assert "promises no differential privacy" in made  # epsilon is the grid's width here, and no privacy
    assert "rounded to a grid of width 0.01" in made


def test_noise_is_said_where_there_is_any(tmp_path):
    plain = read_run(folder_of(tmp_path / "a"))
    assert spent(plain) == {}
    assert "nothing but sums over all sites" in exposure(plain)
    described = read_run(folder_of(tmp_path / "b", parameters={"epsilon": 2.0, "delta": 1e-5, "n_rounds": 4}))
    assert "ε = 2 at δ = 1e-05. What is trained is not covered" in exposure(described)
    private = {"privacy": {"epsilon": 1.5, "delta": 1e-6, "clip": 2.0, "unit": "site"}}
    run = read_run(folder_of(tmp_path / "c", parameters=private))
    assert spent(run) == {"epsilon": 1.5, "delta": 1e-6, "unit": "site"}
    assert "ε = 1.5 at δ = 1e-06, for any one site" in exposure(run)
