"""``fedgeom coordinator``: init, admit, list, renew."""

from __future__ import annotations

import json

from fedgeom.crypto.keys import describe_identity
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from tests.cli.deploying import call


def test_from_nothing_to_the_roster(here):
    call("coordinator", "init", "--folder", "c", "--name", "host.example")
    public = call("site", "init", "--name", "charite", "--coordinator", "host.example:8000")
    lines = json.loads((here / "charite" / "charite.pub").read_text())
    assert lines["identity"] in public
    assert "send these lines" in public.lower()
    shown = describe_identity(bytes.fromhex(lines["identity"]))
    assert len(shown) == 64  # short enough for the telephone
    assert shown in call("coordinator", "admit", "charite/charite.pub", "--folder", "c")
    listed = call("coordinator", "list", "--folder", "c")
    assert "charite admitted" in listed
    assert "not running" in listed
    assert "roster.json" in call("coordinator", "remove", "charite", "--folder", "c")
    assert "0 sites admitted" in call("coordinator", "list", "--folder", "c")


def test_init_says_what_is_missing(here):
    assert "no --name was given" in call("coordinator", "init", code=2)
    assert "this machine only" in call("coordinator", "init", "--insecure", "--host", "10.0.0.7", code=2)
    assert "this machine only" in call("site", "init", "--name", "a", "--insecure", code=2)
    assert "HOST:PORT" in call("site", "init", "--name", "a", "--coordinator", "host", code=2)
    assert "cannot be a site's name" in call("site", "init", "--name", "../a", code=2)
    assert list(here.iterdir()) == []
    call("coordinator", "init", "--insecure", "--folder", "c")
    assert CoordinatorFolder(here / "c").config().host == "127.0.0.1"


def test_renewing(made):
    assert "valid until" in call("coordinator", "init", "--renew", "--folder", made.path)
    assert "coordinator init" in call("coordinator", "init", "--renew", "--folder", made.path / "jobs", code=2)
