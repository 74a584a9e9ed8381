"""The application: its own files, and folders that are none."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.studio.app import make_app


def test_style_and_scripts_are_served_from_here_and_nothing_else_is(client):
    assert "--accent" in client.get("/style.css").text
    assert ".drop" in client.get("/style.css").text
    assert "htmx" in client.get("/vendor/htmx/htmx.min.js").text[:200]
    assert "Zero-Clause BSD" in client.get("/vendor/htmx/LICENSE").text
    assert client.get("/static/studio.js").status_code == 200
    for path in ("/static/../app.py", "/static/..%2fapp.py", "/vendor/../templates/base.html"):
        assert client.get(path).status_code in (403, 404)
    page = client.get("/").text
    assert "http://" not in page
    assert "https://" not in page


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no folder"):
        make_app(tmp_path / "nothing", "t")
