"""Folders for tests that need them, and one real federation for all: starting it takes longer than using it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.storage import write_file
from tests.deploy.deployment import Federation, parts
from tests.deploy.making import make_coordinator, make_sites, need_nats
from tests.deploy.offline import write_offline

GOOD = ("anna", "bert", "carl", "dora")
OTHER_VERSION = "import fedgeom.federation.messages as messages\n\nmessages.VERSION += 1\n"


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Run four good sites, erik, who has another key than he was admitted with, and frida of another version.

    All processes are cut off from every other machine; what they try is in the file ``attempts``.
    """
    need_nats()
    root = tmp_path_factory.mktemp("federation")
    offline = write_offline(root / "offline", root / "attempts")
    strange = write_offline(root / "strange", root / "attempts", OTHER_VERSION)
    with Federation(root, parts(6, rows=120), environment=offline) as there:
        erik, new = there.sites["erik"], Identity.generate()
        write_file(erik.identity_file, new.secret, private=True)
        Roster({**there.coordinator.roster(), "erik": new.public}).save(erik.path / "roster.json")
        there.start_coordinator()
        for name in there.sites:
            there.start_site(name, strange if name == "frida" else {})
        yield there
    assert there.find() == []


@pytest.fixture
def coordinator(tmp_path: Path) -> CoordinatorFolder:
    """Make a coordinator's folder."""
    need_nats()
    return make_coordinator(tmp_path / "c")


@pytest.fixture
def sites(tmp_path: Path, coordinator: CoordinatorFolder) -> dict[str, SiteFolder]:
    """Make the folders of some sites, all admitted."""
    return make_sites(tmp_path, coordinator)
