"""A table with gaps over five sites, with fedgeom."""

import json
import os

import numpy as np

import fedgeom

with np.load(os.environ["PEERS_TABLE"]) as file:
    X, y, at, X_test, y_test = (file[name] for name in ("X", "y", "site", "X_test", "y_test"))
sites = [fedgeom.SiteData(f"site-{k}", X[at == k], y[at == k]) for k in range(5)]
model = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), sites, seed=0).model
print(json.dumps({"accuracy": round(float((model.predict(X_test) == y_test).mean()), 4)}))
