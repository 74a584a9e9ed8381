"""Three real sites with privacy budgets: one runs out, both sides say so, and nothing that was computed is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fedgeom
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.journal import Journal
from fedgeom.evaluation.evaluation import read_evaluation
from tests.deploy.deployment import Federation, parts
from tests.deploy.making import edit, need_nats
from tests.deploy.test_deployment import settings
from tests.deploy.test_stewards import site

pytestmark = [pytest.mark.deployment, pytest.mark.full]

JOB = fedgeom.Moments(
    classes=("no", "yes"),
    min_sites=3,
    holdout=0.25,
    privacy=fedgeom.DP(epsilon=1, delta=1e-5, clip=2),
)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Run three sites, of which carl's steward allows ε = 1.2 in all, and the others 10."""
    need_nats()
    with Federation(tmp_path_factory.mktemp("budget"), parts(3, rows=150)) as made:
        for name, folder in made.sites.items():
            edit(folder, "max_epsilon = 0.0 ", f"max_epsilon = {1.2 if name == 'carl' else 10.0} ")
        made.start_all()
        yield made
    assert made.find() == []


def spent(there: Federation, name: str) -> list[str]:
    folder = there.sites[name]
    return [one.run for one in BudgetStore(folder.path, folder.identity(), folder.config().policy).read()]


def test_a_site_that_runs_out_says_so_on_both_sides_and_nothing_is_lost(there: Federation) -> None:
    first = there.submit(settings(JOB, seed=1), name="first")
    assert there.wait(first)["state"] == "finished"
    kept = (first.run_folder / "model.safetensors").read_bytes()
    assert {name: spent(there, name) for name in there.sites} == {name: [first.run.hex()] for name in there.sites}
    tested = read_evaluation(first.run_folder)
    assert tested is not None
    assert tested["own"].accuracy.value > 0.6

    second = there.submit(settings(JOB, seed=2), name="second")
    status = there.wait(second)
    assert status["state"] == "failed"
    words = "privacy budget is spent: its runs come to epsilon = 1, and this job would bring it to 1.4"
    assert words in status["detail"]  # the coordinator's side
    assert "carl" in status["detail"]
    shown = " ".join(site(there, "carl", "budget").split())
    assert "spent epsilon = 1 of max_epsilon = 1.2, at delta = 1e-05" in shown
    notes = [entry.note for entry in Journal(there.sites["carl"].path).entries() if entry.run == second.run.hex()]
    assert any(words in note for note in notes)  # the site's
    assert not Journal(there.sites["carl"].path).has_answered(second.run)
    assert spent(there, "carl") == [first.run.hex()]

    assert (first.run_folder / "model.safetensors").read_bytes() == kept
    edit(there.sites["carl"], "max_epsilon = 1.2 ", "max_epsilon = 3.0 ")  # the steward thinks again
    third = there.submit(settings(JOB, seed=2), name="third")
    assert there.wait(third)["state"] == "finished"
    assert spent(there, "carl") == [first.run.hex(), third.run.hex()]
