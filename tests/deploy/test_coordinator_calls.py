"""What Flower is told of the admitted sites: each key once, and removed ones never again."""

from __future__ import annotations

import os

import pytest

from fedgeom.deploy import coordinator as deploy_coordinator
from fedgeom.deploy.coordinator import forget_nodes, register_nodes
from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE
from fedgeom.deploy.programs import BUNDLE
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower.calls import CallResult
from fedgeom.errors import InputError
from tests.deploy.making import NAMES, make_coordinator, make_sites


class Flower:
    """Flower's command line: numbers for keys, and a list of what was asked."""

    def __init__(self):
        self.asked, self.refused, self.known = [], set(), set()

    def __call__(self, environment, command):
        self.asked.append(" ".join(command[1:3]))
        return '{"nodes": [], "runs": [{"status": "running"}], "run-id": 17}'

    def together(self, environment, several):
        return [self.register(command) for command in several]

    def register(self, command):
        self.asked.append(" ".join(command[1:3]))
        name = command[command.index("--name") + 1]
        if name in self.refused:
            return CallResult(1, "out of order")
        if name in self.known:
            return CallResult(1, "the key is already in use")
        return CallResult(0, f'{{"success": true, "node-id": {NAMES.index(name) + 1}}}')

    def registrations(self):
        return self.asked.count("supernode register")


@pytest.fixture
def flower(monkeypatch):
    made = Flower()
    monkeypatch.setattr("fedgeom.engines.flower.calls.call", made)
    monkeypatch.setattr("fedgeom.engines.flower.calls.call_together", made.together)
    return made


@pytest.fixture
def made(tmp_path):
    coordinator = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, coordinator)
    return coordinator


def numbers(made):
    return {name: node.number for name, node in made.registered().nodes.items()}


def test_nodes_are_registered_once_and_shut_out_when_removed(made, flower, tmp_path):
    said = []
    register_nodes(made, said.append)
    assert said == [f"{name} may connect" for name in NAMES]
    assert numbers(made) == {"anna": "1", "bert": "2", "carl": "3"}
    register_nodes(made, said.append)
    assert flower.asked == ["supernode register"] * 3
    key = made.node_keys()["bert"]
    made.remove("bert")
    register_nodes(made, said.append)
    assert (flower.asked[-1], said[-1]) == ("supernode unregister", "bert may connect no more")
    assert made.registered().shut == [key]
    with pytest.raises(InputError, match="--new-node-key"):
        made.admit(tmp_path / "bert" / "bert.pub")


def test_a_new_superlink_is_told_of_everybody_again_and_removed_keys_stay_shut_out(made, flower):
    register_nodes(made, lambda text: None)
    key = made.node_keys()["bert"]
    made.remove("bert")  # while no coordinator runs
    forget_nodes(made)
    assert numbers(made) == {}
    assert made.registered().shut == [key]
    register_nodes(made, lambda text: None)
    assert numbers(made) == {"anna": "1", "carl": "3"}
    assert flower.registrations() == 5
    assert "supernode unregister" not in flower.asked  # it knows nobody who could be shut out


def test_a_new_key_takes_the_place_of_the_old_one(made, flower, tmp_path):
    register_nodes(made, lambda text: None)
    key, said = made.node_keys()["anna"], []
    made.admit(with_a_new_key(tmp_path, "anna"))
    register_nodes(made, said.append)
    assert said == ["anna: the old node key is shut out", "anna may connect"]
    assert made.registered().shut == [key]
    assert made.registered().nodes["anna"].key == made.node_keys()["anna"] != key


def with_a_new_key(root, name):
    site = SiteFolder(root / name)
    site.new_node_key(name)
    return site.public_file(name)


def test_one_node_that_cannot_be_registered_costs_no_other_its_number(made, flower):
    flower.refused.add("anna")
    with pytest.raises(InputError, match="out of order"):
        register_nodes(made, lambda text: None)
    assert numbers(made) == {"bert": "2", "carl": "3"}
    flower.refused.clear()
    register_nodes(made, lambda text: None)
    assert numbers(made)["anna"] == "1"
    assert flower.registrations() == 4


def test_a_node_that_flower_knew_already_has_no_number_and_is_not_spoken_of(made, flower):
    flower.known.add("carl")
    said = []
    register_nodes(made, said.append)
    assert numbers(made) == {"anna": "1", "bert": "2", "carl": ""}
    assert said == ["anna may connect", "bert may connect"]


def test_programs_find_the_folder_and_our_launchers_first(made):
    environment = deploy_coordinator.coordinator_environment(made)
    assert environment[FOLDER_VARIABLE] == str(made.path)
    first = environment["PATH"].split(os.pathsep)[0]
    assert first.startswith(str(made.path))
    assert os.access(os.path.join(first, "flower-superlink"), os.X_OK)


def test_runs_are_started_asked_for_and_stopped(made, flower):
    assert deploy_coordinator.start_flower_run(made, "study-1") == "17"
    assert deploy_coordinator.flower_status(made, "17") == "running"
    deploy_coordinator.stop_flower_run(made, "17")
    assert deploy_coordinator.node_states(made) == {}
    assert flower.asked == [f"run {BUNDLE}", "list fedgeom", "stop 17", "supernode list"]
