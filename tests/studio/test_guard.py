"""Who may ask the studio anything."""

from __future__ import annotations

import pytest

from tests.studio.conftest import TOKEN


def test_with_the_token_from_this_machine_the_page_is_shown(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert TOKEN not in str(answer.headers)


@pytest.mark.parametrize("path", ["/", "/runs", "/wrong-token/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/favicon.ico"])
def test_without_the_token_nothing_is_shown_but_a_sentence(client, path):
    answer = client.get(f"http://127.0.0.1:8000{path}")
    assert answer.status_code == 403
    assert "Open the address that `fedgeom studio` printed" in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "10.0.0.1:8000"]
)
def test_a_name_that_somebody_lets_point_to_this_machine_is_not_ours(client, host):
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "127.0.0.1 and localhost only" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_page_in_the_same_browser_can_do_nothing(client, headers):
    answer = client.post("/studies", headers=headers, content=b"label=x")
    assert answer.status_code == 403


def test_a_request_that_does_not_say_where_it_comes_from_changes_nothing(client):
    del client.headers["origin"]
    assert client.get("/").status_code == 200
    assert client.post("/studies", content=b"label=x").status_code == 403


OPENED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""What Chromium says when a file that only the user can read leads it here."""


def test_a_file_may_lead_a_tab_to_the_first_page_and_nothing_else(client):
    assert client.get("/", headers=OPENED).status_code == 200
    assert client.get("/runs", headers=OPENED).status_code == 403
    assert client.get("/", headers=OPENED | {"sec-fetch-dest": "iframe"}).status_code == 403
    assert client.get("/", headers=OPENED | {"sec-fetch-mode": "cors"}).status_code == 403
    assert client.post("/", headers=OPENED).status_code == 403
