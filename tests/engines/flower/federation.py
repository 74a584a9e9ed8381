"""An unpatched Flower federation on loopback: a SuperLink and a SuperNode for each site, as Flower's own programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from fedgeom.deploy.jobs import Job, load_job
from fedgeom.engines.processes import free_port, stop, wait_for_port
from tests.deploy.deployment import Federation

APP = Path(__file__).resolve().parents[3] / "examples" / "flower-app"
CONNECTION = "here"


class FlowerFederation:
    """Flower's programs over the folders of a federation, whose own programs do not run."""

    def __init__(self, folders: Federation):
        self.folders = folders
        self._home = folders.root / "flower"
        self._home.mkdir()
        self._port = free_port()
        self._programs: list[subprocess.Popen[bytes]] = []
        (self._home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n'
            f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )

    def __enter__(self) -> FlowerFederation:
        address = f"127.0.0.1:{self._port}"
        where = ["--insecure", "--host", "127.0.0.1"]
        link = ["flower-superlink", *where, "--port", str(self._port), "--disable-runtime-dependency-installation"]
        self._start(link)
        wait_for_port(address, self._programs[0])
        for name, site in self.folders.sites.items():
            settings = ["--node-config", f'site="{site.path}"']
            self._start(
                ["flower-supernode", *where, "--superlink", address, "--port", str(free_port()), *settings], name
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._programs:
            stop(program)

    def _start(self, command: list[str], name: str = "superlink") -> None:
        with (self._home / f"{name}.log").open("wb") as log:
            self._programs.append(
                subprocess.Popen(command, env=self.environment(), stdout=log, stderr=log, start_new_session=True)
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of Flower's programs: they start each other by name."""
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("FLWR_")},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "FLWR_HOME": str(self._home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    def log(self) -> str:
        """Return what Flower's programs have written."""
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in self._home.glob("*.log"))

    def run(self, settings: str, *, name: str = "job") -> Job:
        """Do what `flwr run` does with a federation file of this text; return the job once there is one."""
        file = self.folders.root / f"{name}.toml"
        file.write_text(settings, encoding="utf-8")
        given = f'coordinator="{self.folders.coordinator.path}" federation="{file}"'
        command = ["flwr", "run", str(APP), CONNECTION, "--run-config", given]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        jobs = self.folders.coordinator.path / "jobs"
        assert self.folders.until(lambda: list(jobs.glob(f"{name}-*/job.json"))), self.log()[-5000:]
        (found,) = jobs.glob(f"{name}-*")
        return load_job(self.folders.coordinator, found.name)
