"""Three sites with CSV files: read, run, keep a record, load a site's own model again."""

import csv
import tempfile
from pathlib import Path

import fedgeom
from fedgeom.report.page import write_page

with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch)
    for site in fedgeom.load_set("breast-cancer", n_sites=3).train:
        with (folder / f"{site.name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*site.columns, "diagnosis"])
            writer.writerows([*row, label] for row, label in zip(site.X.tolist(), site.y, strict=True))

    sites = [fedgeom.read_site(path, label="diagnosis") for path in sorted(folder.glob("*.csv"))]
    print(*sites, sep="\n")
    fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites, seed=0, record=folder / "run")
    page = write_page(folder / "run")

    mine = fedgeom.load_model(folder / "run" / "sites" / "site-1.safetensors")
    print("first rows of site-1:", *mine.predict(sites[0].X[:5]))
    print("kept:", *sorted(path.name for path in page.parent.iterdir()))
