"""torch: a network of your own, trained over sites: whole, and with a head of its own at each site."""

import torch

import fedgeom
from fedgeom.methods.iterative import TorchLearner


def build(columns, classes):
    """A small network; sites and coordinator build the same one and then exchange its parameters."""
    return torch.nn.Sequential(torch.nn.Linear(columns, 32), torch.nn.ReLU(), torch.nn.Linear(32, classes))


net = TorchLearner("small-net", build, head=("2.weight", "2.bias"))  # on other machines it is found by this name
digits = fedgeom.load_set("digits", n_sites=4)

for method in (fedgeom.FedAvg(learner=net, n_rounds=10), fedgeom.FedPer(learner=net, n_rounds=10)):
    run = fedgeom.run(method, digits.train, seed=0)
    scores = {}
    for test in digits.test:
        model = run.model.for_site(run.local[test.name])
        scores[test.name] = round(model.score(test.X, test.y), 3)
    print(f"{method.name}: {scores}")
