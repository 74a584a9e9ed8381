"""What the coordinator's folder tells Flower, and asks of it: who may connect, which job runs, how a run stands."""

from __future__ import annotations

from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE, CoordinatorFolder, Node
from fedgeom.deploy.programs import BUNDLE, write_launchers
from fedgeom.engines.flower import calls, commands
from fedgeom.engines.flower.processes import Say
from fedgeom.errors import InputError


def coordinator_environment(folder: CoordinatorFolder) -> dict[str, str]:
    """Return the environment of the coordinator's programs."""
    home = folder.path / "flower"
    return commands.environment(home, launchers=write_launchers(home)) | {FOLDER_VARIABLE: str(folder.path)}


def register_nodes(folder: CoordinatorFolder, say: Say) -> None:
    """Tell the running SuperLink which node keys are admitted: new ones come in, removed ones are shut out."""
    registered, keys = folder.registered(), folder.node_keys()
    environment = coordinator_environment(folder)
    for name, node in list(registered.nodes.items()):
        if keys.get(name) != node.key:
            del registered.nodes[name]
            registered.shut.append(node.key)
            folder.save_registered(registered)
            if node.number:
                calls.unregister_node(environment, node.number)
            say(f"{name} may connect no more" if name not in keys else f"{name}: the old node key is shut out")
    new = [name for name in keys if name not in registered.nodes]
    numbers = calls.register_nodes(environment, {name: folder.node_key_file(name) for name in new})
    for name, number in numbers.items():
        if isinstance(number, str):
            registered.nodes[name] = Node(keys[name], number)
            if number:
                say(f"{name} may connect")
    folder.save_registered(registered)
    for number in numbers.values():
        if isinstance(number, InputError):
            raise number  # after the numbers of all the others are kept


def forget_nodes(folder: CoordinatorFolder) -> None:
    """Say that a new SuperLink, which knows nobody, has been told of no node yet; removed keys stay shut out."""
    registered, keys = folder.registered(), folder.node_keys()
    registered.shut += [node.key for name, node in registered.nodes.items() if keys.get(name) != node.key]
    registered.nodes.clear()
    folder.save_registered(registered)


def node_states(folder: CoordinatorFolder) -> dict[str, str]:
    """Return what Flower says of each node, by its number."""
    return calls.node_states(coordinator_environment(folder))


def start_flower_run(folder: CoordinatorFolder, job: str) -> str:
    """Start a job on the running coordinator and return Flower's number for it."""
    return calls.start_run(coordinator_environment(folder), BUNDLE, job)


def flower_status(folder: CoordinatorFolder, run_id: str) -> str:
    """Return how Flower says that a run stands, such as ``finished:failed``."""
    return calls.run_state(coordinator_environment(folder), run_id)


def stop_flower_run(folder: CoordinatorFolder, run_id: str) -> None:
    """Ask Flower to stop a run; that it has ended meanwhile is as good."""
    calls.stop_run(coordinator_environment(folder), run_id)
