"""A body, a loss and an augmentation of one's own, under any algorithm and any optimizer of torch."""

from dataclasses import dataclass
from typing import ClassVar

import torch

import fedgeom
from fedgeom.extend import Augmentation, Loss, own_network


def build(shape):
    return torch.nn.Sequential(torch.nn.Linear(shape[0], 32), torch.nn.LayerNorm(32), torch.nn.GELU())


@dataclass(frozen=True)
class Focal(Loss):
    name: ClassVar[str] = "focal"
    gamma: float = 2.0

    def __call__(self, batch):
        chance = torch.softmax(batch.scores, 1).gather(1, batch.labels[:, None])[:, 0]
        return batch.mean(-((1 - chance) ** self.gamma) * chance.clamp_min(1e-9).log())


@dataclass(frozen=True)
class Blur(Augmentation):
    name: ClassVar[str] = "blur"
    strength: float = 0.1

    def __call__(self, inputs, generator):
        return inputs + self.strength * torch.randn(inputs.shape, generator=generator).to(inputs.device)


if __name__ == "__main__":
    digits = fedgeom.load_set("digits", n_sites=4)
    body = own_network("my-body", build, 32)
    for kind in (fedgeom.FedAvg, fedgeom.FedPer, fedgeom.FedRoD):
        chosen = {} if kind is fedgeom.FedRoD else {"loss": Focal()}  # FedRoD has a loss of its own
        method = kind(
            network=body, augmentation=Blur(0.05), optimizer="adam", learning_rate=0.01, n_rounds=4, **chosen
        )
        run = fedgeom.run(method, digits.train, seed=0, holdout=0.25)
        print(f"{method.name}: {run.evaluation['own'].accuracy}")
