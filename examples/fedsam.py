"""A torch step of one's own: FedSAM as one writes it, sites look for flat minima (Qu et al. 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

import fedgeom
from fedgeom.extend import Algorithm


@dataclass(frozen=True, kw_only=True)
class FedSAM(Algorithm):
    name: ClassVar[str] = "own-fedsam"
    rho: float = 0.05

    def local_step(self, model, batch, state):
        batch.loss().backward()
        weights = [weight for weight in model.parameters() if weight.grad is not None]
        length = torch.cat([weight.grad.flatten() for weight in weights]).norm() + 1e-12
        away = [self.rho * weight.grad / length for weight in weights]
        with torch.no_grad():
            torch._foreach_add_(weights, away)
        model.zero_grad()
        batch.fresh().loss().backward()  # the gradient of the steepest point nearby …
        with torch.no_grad():
            torch._foreach_sub_(weights, away)  # … is stepped along from where the model was


if __name__ == "__main__":
    digits = fedgeom.load_set("digits", n_sites=4)
    method = FedSAM(network="mlp", n_rounds=5, epochs=2, optimizer="adam", learning_rate=0.005)
    run = fedgeom.run(method, digits.train, seed=0, holdout=0.25)
    print(f"{method.name}: {run.evaluation['own'].accuracy}")
