"""An aggregation of one's own, against a site that lies: the mean of the vectors nearest to the median."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

import fedgeom
from fedgeom.extend import Aggregation, Between


@dataclass(frozen=True)
class Nearest(Aggregation):
    name: ClassVar[str] = "nearest"
    kept: Annotated[float, Between(0, 1, open_low=True)] = 0.6

    def __call__(self, vectors, weights):  # it looks at each site's vector, so such runs are open, and say so
        away = np.linalg.norm(vectors - np.median(vectors, axis=0), axis=1)
        near = np.argsort(away)[: max(1, round(self.kept * len(vectors)))]
        return weights[near] @ vectors[near] / weights[near].sum()


if __name__ == "__main__":
    patients = fedgeom.load_set("breast-cancer", n_sites=5)
    first, *others = patients.train
    liar = fedgeom.SiteData(first.name, np.tile(-first.X, (6, 1)), np.tile(first.y, 6))
    for aggregation in ("mean", Nearest(0.6)):
        run = fedgeom.run(fedgeom.FedAvg(aggregation=aggregation, scale="site"), [liar, *others], seed=0)
        site = run.local[others[0].name]
        right = [run.model.for_site(site).score(test.X, test.y) for test in patients.test[1:]]
        print(f"{run.model.summary()}, {getattr(aggregation, 'name', aggregation)}: {np.mean(right):.3f}")
