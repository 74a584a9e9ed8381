"""The same cells in one place, with scanpy and logistic regression."""

import json
import os

import anndata
import scanpy
from sklearn.linear_model import LogisticRegression

cells = anndata.read_h5ad(os.environ["PEERS_CELLS"])
scanpy.pp.normalize_total(cells, target_sum=1e4)
scanpy.pp.log1p(cells)
scanpy.pp.highly_variable_genes(cells, n_top_genes=2000)
cells = cells[:, cells.var["highly_variable"]].copy()
scanpy.pp.scale(cells, max_value=10)
scanpy.pp.pca(cells, n_comps=50)
train, test = cells[~cells.obs["test"]], cells[cells.obs["test"]]
model = LogisticRegression(max_iter=1000).fit(train.obsm["X_pca"], train.obs["cell_type"])
right = model.predict(test.obsm["X_pca"]) == test.obs["cell_type"].to_numpy()
print(json.dumps({"accuracy": round(float(right.mean()), 4)}))
