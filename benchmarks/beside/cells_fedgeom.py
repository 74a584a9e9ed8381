"""Counts of cells of several donors, with fedgeom: donors are the sites."""

import json
import os

import anndata

import fedgeom

cells = anndata.read_h5ad(os.environ["PEERS_CELLS"])
train, test = cells[~cells.obs["test"]].copy(), cells[cells.obs["test"]].copy()
sites = fedgeom.SiteData.from_anndata(train, label="cell_type", by="donor")
model = fedgeom.run(fedgeom.Ridge(features="linear", prepare="counts", rule="discriminant"), sites, seed=0).model
right = model.predict(test) == test.obs["cell_type"].to_numpy()
print(json.dumps({"accuracy": round(float(right.mean()), 4)}))
