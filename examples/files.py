"""Three sites with CSV files: read, run, keep a record, load the model again."""

import csv
import tempfile
from pathlib import Path

import fedgeom
from fedgeom.data.readers import read_site
from fedgeom.data.sets import load_set
from fedgeom.report.page import write_page

with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch)
    for site in load_set("breast-cancer", n_sites=3).train:
        with (folder / f"{site.name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*site.columns, "diagnosis"])
            writer.writerows([*row, label] for row, label in zip(site.X.tolist(), site.y, strict=True))

    sites = [read_site(path, label="diagnosis") for path in sorted(folder.glob("*.csv"))]
    print(*sites, sep="\n")
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites, seed=0, record=folder / "run")
    page = write_page(folder / "run")

    model = fedgeom.load_model(folder / "run" / "model.safetensors")
    mine = model.for_site(run.local["site-1"])
    print("first rows of site-1:", *mine.predict(sites[0].X[:5]))
    print("kept:", *sorted(path.name for path in page.parent.iterdir()))
