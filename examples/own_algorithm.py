"""An algorithm of your own: FedAvg with Nesterov's momentum at the coordinator."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

import fedgeom
from fedgeom.extend import Algorithm, Between, Tree


@dataclass(frozen=True, kw_only=True)
class LookAhead(Algorithm):
    """m ← βm + (mean − w), w ← w + (mean − w) + βm."""

    name: ClassVar[str] = "lookahead"

    beta: Annotated[float, Between(0, 1, open_high=True)] = 0.5
    """β: how much of the last step the next one repeats."""

    def start(self, model):
        return Tree(model=model, momentum=model.zeros())

    def combine(self, state, mean, round):
        momentum = self.beta * state["momentum"] + mean["model"] - state["model"]
        return Tree(model=mean["model"] + self.beta * momentum, momentum=momentum)


if __name__ == "__main__":
    patients = fedgeom.load_set("breast-cancer", n_sites=4)
    run = fedgeom.run(LookAhead(n_rounds=5), patients.train, seed=0)
    right = np.concatenate([run.model.predict(site.X) == site.y for site in patients.test])
    print(f"{right.mean():.1%} of {len(right)} test rows are right; the coordinator saw sums only")
