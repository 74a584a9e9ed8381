"""An algorithm of one's own: FedExP as one writes it, longer steps where sites disagree (Jhunjhunwala et al. 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import fedgeom
from fedgeom.extend import Algorithm, Tree


@dataclass(frozen=True, kw_only=True)
class FedExP(Algorithm):
    name: ClassVar[str] = "own-fedexp"
    sends: ClassVar[tuple[str, ...]] = ("model", "square")
    sends_changes: ClassVar[bool] = True

    def sent_like(self, model):
        return Tree(model=model, square=0.0)

    def local(self, task, given, own):
        change = task.fit(given["model"]) - given["model"]
        return Tree(model=change, square=float(change.flat() @ change.flat()))

    def combine(self, state, mean, round):
        step = mean["model"].flat()
        rate = max(1.0, mean["square"] / (2 * (step @ step + 1e-3)))
        return Tree(model=state["model"] + rate * mean["model"])


if __name__ == "__main__":
    digits = fedgeom.load_set("digits", n_sites=4)
    print(
        fedgeom.compare(
            [FedExP(n_rounds=3, epochs=1), fedgeom.FedAvg(n_rounds=3, epochs=1)], digits.train, seeds=1
        )
    )
