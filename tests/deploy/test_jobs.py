"""Jobs: checks before anything is sent, and names that are no paths."""

from __future__ import annotations

import pytest

from fedgeom.deploy.jobs import create_job, load_job
from fedgeom.errors import InputError
from tests.deploy.making import NAMES, make_coordinator, make_sites


@pytest.fixture
def coordinator(tmp_path):
    made = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, made)
    return made


SEVEN = 'method = "hulls"\nseed = 7\n'


def federation(tmp_path, text='method = "hulls"\n'):
    file = tmp_path / "My Study.toml"
    file.write_text(text)
    return file


def test_a_job_keeps_its_own_copy(tmp_path, coordinator):
    file = federation(tmp_path, 'method = "hulls"\nseed = 7\n')
    job = create_job(coordinator, file)
    file.write_text("seed = 8")
    again = load_job(coordinator, job.name)
    assert again == job
    assert (job.name, job.names, len(job.run), again.file.seed) == ("my-study-1", NAMES, 32, 7)
    assert create_job(coordinator, federation(tmp_path)).run != job.run


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ('method = "none"', "there is no method 'none'"),
        ('names = "shared"', "no method is named, and none is chosen"),
        ('method = "hulls"\n[parameters]\nepsilom = 1', "Did you mean 'epsilon'"),
        ('method = "hulls"\n[parameters]\nepsilon = -1', "wanted a number above 0"),
        ('method = "hulls"\n[[sites]]\nname = "anna"\n[[sites]]\nname = "zoe"', "not admitted: zoe"),
        ('method = "hulls"\n[[sites]]\nfile = "zoe.csv"\n[[sites]]\nname = "anna"', "not admitted: zoe"),
        ('method = "hulls"\n[[sites]]\nname = "anna"\n[[sites]]\nname = "anna"', "named twice"),
        ('method = "hulls"\n[[sites]]\nname = "anna"', "but 2 are needed"),
        ('method = "hulls"\nmin_sites = 4', "but 4 are needed"),
    ],
)
def test_what_cannot_run_is_refused_at_once(tmp_path, coordinator, text, piece):
    with pytest.raises(InputError, match=piece):
        create_job(coordinator, federation(tmp_path, text))
    assert not list((coordinator.path / "jobs").iterdir())


def test_names_of_jobs_say_where_they_come_from_and_are_never_taken_twice(tmp_path, coordinator):
    for stem, name in (("A b", "a-b-1"), ("A  b", "a-b-2"), ("###", "job-1"), ("x" * 99, "x" * 60 + "-1")):
        file = tmp_path / f"{stem}.toml"
        file.write_text('method = "hulls"\n')
        job = create_job(coordinator, file)
        assert job.name == name
        assert job.run_folder == coordinator.path / "runs" / name


@pytest.mark.parametrize("name", ["", "..", "../c", "a/b", "/etc", "A", "x" * 100, "missing-1", "my-study-1\n"])
def test_only_jobs_of_the_folder_are_run(tmp_path, coordinator, name):
    create_job(coordinator, federation(tmp_path))
    with pytest.raises(InputError):
        load_job(coordinator, name)


def test_the_terms_of_a_job_name_all_who_may_take_part(tmp_path, coordinator):
    """In a file without sites, those who are admitted when the job is made; in any order where they are named."""
    named = SEVEN + '[[sites]]\nname = "carl"\n[[sites]]\nfile = "x/anna.csv"\n[[sites]]\nname = "bert"\n'
    one, two = (create_job(coordinator, federation(tmp_path, text)).terms() for text in (SEVEN, named))
    assert one == two
    assert (one.method, one.seed, one.participants) == ("hulls", 7, NAMES)
    assert one.settings == create_job(coordinator, federation(tmp_path)).method().terms()
    coordinator.remove("carl")
    assert create_job(coordinator, federation(tmp_path, SEVEN)).terms() != one
