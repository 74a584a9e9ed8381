"""The coordinator's end of the Flower engine: a ServerApp that hands the grid to whoever conducts the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedgeom.engines.flower.commands import JOB_SETTING
from fedgeom.engines.flower.engine import Grid

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid as FlowerGrid
    from flwr.serverapp import ServerApp


def make_server_app(conduct: Callable[[str, Grid], None]) -> ServerApp:
    """Return the ServerApp; ``conduct`` gets the job's name, from the run's settings, and the way to the nodes."""
    from flwr.serverapp import ServerApp  # optional, 2 s

    app = ServerApp()

    @app.main()
    def main(grid: FlowerGrid, context: Context) -> None:
        conduct(str(context.run_config.get(JOB_SETTING, "")), grid)

    return app
