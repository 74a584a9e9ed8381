"""Five methods on the same rows, and a sweep with equal effort: one table each."""

import numpy as np

import fedgeom
from fedgeom.partition import Dirichlet

digits = fedgeom.load_set("digits", n_sites=1, test_share=0.0).train[0]
dealt = Dirichlet(alpha=0.5, min_rows=40).over(digits.X, digits.y, n_sites=5, seed=0)
print(dealt)

short = {"n_rounds": 3, "epochs": 1}
rounds = [fedgeom.FedAvg(**short), fedgeom.FedProx(**short), fedgeom.Scaffold(**short, weights="rows")]
print(fedgeom.compare([*rounds, fedgeom.FedNova(**short), fedgeom.Ridge()], dealt.sites, seeds=2))
print(fedgeom.sweep(rounds[:2], dealt.sites, grid={"learning_rate": list(np.geomspace(0.03, 0.3, 2))}, seeds=1))
