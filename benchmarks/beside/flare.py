"""The job with NVFlare's simulator."""

import tempfile
from pathlib import Path

import job
import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        recipe = FedAvgRecipe(
            name="peers",
            model=job.Net(),
            min_clients=job.CLIENTS,
            num_rounds=job.ROUNDS,
            train_script=str(Path(__file__).with_name("flare_client.py")),
        )
        recipe.execute(SimEnv(num_clients=job.CLIENTS, num_threads=2, workspace_root=folder))
        net = job.Net()
        saved = next(Path(folder).rglob("FL_global_model.pt"))
        net.load_state_dict(torch.load(saved, weights_only=False)["model"])
        job.report(job.predicted(net))
