"""One real federation for all tests that need one: starting it takes longer than using it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedgeom.secure.keys import Identity, Roster
from fedgeom.service.certificates import write_private
from tests.service.deployment import Federation, parts

GOOD = ("anna", "bert", "carl")
OTHER_VERSION = "import fedgeom.federation.messages as messages\n\nmessages.VERSION += 1\n"


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Run three good sites, dora, who has another key than she was admitted with, and erik of another version."""
    pytest.importorskip("flwr", reason="Flower is not installed")
    root = tmp_path_factory.mktemp("federation")
    with Federation(root, parts(5, rows=120)) as there:
        there.start_coordinator()
        dora, new = there.sites["dora"], Identity.generate()
        write_private(dora.identity_file, new.secret)
        Roster({**there.coordinator.roster(), "dora": new.public}).save(dora.path / "roster.json")
        strange = root / "strange"
        strange.mkdir()
        (strange / "sitecustomize.py").write_text(OTHER_VERSION, encoding="utf-8")
        for name in there.sites:
            there.start_site(name, {"PYTHONPATH": str(strange)} if name == "erik" else {})
        yield there
    assert there.find() == []
