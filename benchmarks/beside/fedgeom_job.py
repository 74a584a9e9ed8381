"""The job with fedgeom: "secure" or "open"."""

import sys

import job

import fedgeom
from fedgeom.extend import TorchLearner

net = TorchLearner("net", lambda columns, classes: job.Net())
sites = [fedgeom.SiteData(f"client-{number:02d}", *job.client(number)) for number in range(job.CLIENTS)]
method = fedgeom.FedAvg(
    learner=net, n_rounds=job.ROUNDS, epochs=1, batch_size=job.BATCH, learning_rate=job.RATE,
    scale="none", secure=sys.argv[1] == "secure",
)  # fmt: skip
job.report(fedgeom.run(method, sites, seed=0).model.predict(job.client("test")[0]))
