"""scanpy: raw counts of several donors in one .h5ad; donors are the sites, genes and barcodes keep their names.

With FEDGEOM_DATA set to a folder that has kang_pbmc_8donors.npz these are blood cells of eight patients (Kang et al.
2018); otherwise counts are drawn. The file is written first, as one would have it from scanpy.
"""

import tempfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
from scipy import sparse

import fedgeom
from fedgeom.data.datasets import data_folder


def real_cells(file):
    """Blood cells of eight patients: counts of the 150 genes that are found most often."""
    z = np.load(file)
    counts = sparse.csr_matrix((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"]))
    often = np.sort(np.argsort(-counts.getnnz(axis=0), kind="stable")[:150])
    known = z["y"] >= 0
    obs = pd.DataFrame({"cell_type": z["class_names"][z["y"]], "donor": z["donor_names"][z["donor"]]})
    obs.index = [f"{barcode.decode()}-{at}" for at, barcode in enumerate(z["barcode"])]
    var = pd.DataFrame(index=z["gene_names"][often])
    return anndata.AnnData(counts[:, often].astype(np.float32), obs=obs, var=var)[known].copy()


def drawn_cells(n=900, genes=120):
    """Counts of three cell types of four donors, each with genes of its own."""
    rng = np.random.default_rng(0)
    kind, donor = rng.integers(0, 3, n), rng.integers(0, 4, n)
    rate = (
        np.where(np.arange(genes) // (genes // 3) == kind[:, None], 2.0, 0.3)
        * rng.gamma(4, 0.25, (4, genes))[donor]
    )
    obs = pd.DataFrame({"cell_type": np.array(["B", "CD4 T", "NK"])[kind], "donor": [f"donor-{d}" for d in donor]})
    obs.index = [f"cell-{i}" for i in range(n)]
    var = pd.DataFrame(index=[f"gene-{i}" for i in range(genes)])
    return anndata.AnnData(sparse.csr_matrix(rng.poisson(rate).astype(np.float32)), obs=obs, var=var)


folder = data_folder()
file = None if folder is None else folder / "kang_pbmc_8donors.npz"
cells = real_cells(file) if file is not None and file.is_file() else drawn_cells()

# What scanpy's normalize_total and log1p do, which need nothing of other donors: counts stay in a layer.
cells.layers["counts"] = cells.X.copy()
depth = np.asarray(cells.X.sum(axis=1)).ravel()
cells.X = (sparse.diags(1e3 / np.maximum(depth, 1)) @ cells.X).log1p().tocsr()

with tempfile.TemporaryDirectory() as scratch:
    cells.write_h5ad(Path(scratch) / "all.h5ad")
    adata = anndata.read_h5ad(Path(scratch) / "all.h5ad")

sites = fedgeom.SiteData.from_anndata(adata, label="cell_type", by="donor")  # layer="counts" for the raw ones
print(sites[0], f"kept as {sites[0].table.format}, {sites[0].table.dtype}; the first cell is {sites[0].index[0]}")

parts = [fedgeom.holdout(site, 0.3, seed=0) for site in sites]
run = fedgeom.run(fedgeom.Moments(space="euclidean", min_rows=1), [train for train, _ in parts], seed=0)
right = [(run.model.predict(test.X) == test.y).sum() for _, test in parts]
tested = sum(len(test) for _, test in parts)
print(
    f"{len(sites)} donors: {sum(right) / tested:.3f} of {tested:,} cells that were kept aside are called rightly"
)

adata.obs["federated"] = run.model.predict(adata)  # an AnnData is found by its genes' names
print(pd.crosstab(adata.obs["donor"], adata.obs["federated"]))
