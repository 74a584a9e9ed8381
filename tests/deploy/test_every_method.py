"""Every method over Flower's own messages and contexts, site folder by site folder, against the embedded engine.

Nothing listens on a port here: what real processes add is in test_deployment.py. A question goes through Flower's
encoding to the ClientApp that sites run, and each finds only what its folder and the encoded context hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from cryptography.hazmat.primitives import serialization
from flwr.app import Context, RecordDict
from flwr.common import serde

import fedgeom
from fedgeom.deploy.answering import read_data
from fedgeom.deploy.conducting import conduct
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.programs import client_app
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower.engine import FlowerEngine
from fedgeom.federation.conversation import Sites
from fedgeom.federation.record import read_folder
from fedgeom.methods.catalogue import METHODS
from tests.deploy.making import make_coordinator, make_sites, small

RUN, SEED = bytes(range(32)), 5


class EncodedGrid:
    """Carries messages as Flower encodes them, and keeps of a node what Flower keeps: its encoded context."""

    def __init__(self, folders: Mapping[int, SiteFolder]):
        self.folders = folders
        self.contexts: dict[int, Any] = {}
        self.replies: dict[str, Any] = {}

    def get_nodes(self) -> list[SimpleNamespace]:
        """Return all nodes, always connected, with their keys as Flower tells them."""
        return [
            SimpleNamespace(node_id=node, status="online", last_activated_at="", public_key=_public_key(folder))
            for node, folder in self.folders.items()
        ]

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        """Have every message answered by a ClientApp that knows nothing but folder and context."""
        return [self._push(message) for message in messages]

    def _push(self, message: Any) -> str:
        node = message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = identifier = f"message {len(self.replies)}"
        context = Context(
            run_id=1,
            node_id=node,
            node_config={"site": str(self.folders[node].path)},
            state=RecordDict(),
            run_config={},
        )
        if node in self.contexts:
            context = serde.context_from_proto(self.contexts[node])
        reply = client_app()(serde.message_from_proto(serde.message_to_proto(message)), context)
        self.contexts[node] = serde.context_to_proto(context)
        self.replies[identifier] = serde.message_from_proto(serde.message_to_proto(reply))
        return identifier

    def pull_messages(self, identifiers: Iterable[str]) -> list[Any]:
        """Return the replies to these messages."""
        return [self.replies[identifier] for identifier in identifiers]


def _public_key(folder: SiteFolder) -> bytes:
    key = serialization.load_ssh_private_key(folder.node_key.read_bytes(), None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages can be made inside its tasks only."""
    from flwr.supercore.task_identity import TaskIdentity

    for part in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, part, 1)


@pytest.mark.usefixtures("inside_a_task")
@pytest.mark.parametrize("insecure", [False, True])
def test_a_job_is_conducted_to_its_end_over_the_nodes_that_prove_who_they_are(
    tmp_path: Path, insecure: bool
) -> None:
    """By their keys, or, where there is no TLS, by what they sign; a stranger's node is passed over."""
    coordinator = make_coordinator(tmp_path / "coordinator", insecure=insecure)
    folders = make_sites(tmp_path, coordinator, insecure=insecure)
    data = [read_data(folder) for folder in folders.values()]
    stranger = SiteFolder.create(tmp_path / "stranger", "stranger", "127.0.0.1:8000", insecure=insecure)
    grid = EncodedGrid(dict(enumerate([stranger, *folders.values()], 1)))
    (tmp_path / "study.toml").write_text("seed = 5\nwait = 0\n[parameters]\nepsilon = 0.05\n")
    job = create_job(coordinator, tmp_path / "study.toml")
    conduct(coordinator, job, grid)
    record = read_folder(job.run_folder)
    assert record["status"]["state"] == "finished"
    assert {entry.site for entry in record["ledger"]} == set(folders)
    model = fedgeom.run(fedgeom.Hulls(epsilon=0.05), data, seed=5).model
    assert (job.run_folder / "model.safetensors").read_bytes() == model.to_bytes()


@pytest.mark.usefixtures("inside_a_task")
@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_what_the_embedded_engine_gives_byte_for_byte(name: str, tmp_path: Path) -> None:
    method, coordinator = small(name), make_coordinator(tmp_path / "coordinator")
    folders = make_sites(tmp_path, coordinator)
    nodes = {site: number for number, site in enumerate(folders, 1)}
    grid = EncodedGrid({nodes[site]: folder for site, folder in folders.items()})
    engine = FlowerEngine(grid, nodes, deadline=600.0, poll=0.0)
    sites = Sites(engine, run=RUN, method=name, roster=coordinator.roster(), seed=SEED)
    carried = method.conduct(sites)
    embedded = fedgeom.run(
        method, [read_data(folder) for folder in folders.values()], seed=SEED, record=tmp_path / "embedded"
    )
    assert carried.to_bytes() == embedded.model.to_bytes()
    for site, folder in folders.items():
        learnt = folder.path / "results" / RUN.hex()[:16] / "sites" / f"{site}.json"
        expected = tmp_path / "embedded" / "sites" / f"{site}.json"
        assert learnt.exists() == expected.exists()
        assert not expected.exists() or learnt.read_bytes() == expected.read_bytes()
