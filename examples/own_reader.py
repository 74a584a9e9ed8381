"""A reader of your own: sites that keep their tables in ARFF files, which fedgeom does not know by itself."""

import tempfile
from pathlib import Path

import fedgeom
from fedgeom.extend import from_columns, read_text, register_reader


def read_arff(file, label, columns, also=()):
    """Read "@attribute NAME TYPE" lines and, after "@data", the rows with commas between their cells."""
    lines = [line for line in read_text(file).splitlines() if line and not line.startswith("%")]
    start = [line.lower() for line in lines].index("@data")
    names = [line.split()[1] for line in lines[:start] if line.lower().startswith("@attribute")]
    rows = [line.split(",") for line in lines[start + 1 :]]
    return from_columns(
        file, names, lambda name: [row[names.index(name)] for row in rows], label, columns, also=also
    )


# A package does this for every program by an entry point in its pyproject.toml:
#   [project.entry-points."fedgeom.readers"]
#   ".arff" = "my_package:read_arff"
register_reader(".arff", read_arff)

with tempfile.TemporaryDirectory() as scratch:
    for site in fedgeom.load_set("wine", n_sites=3).train:
        head = [f"@attribute c{i} numeric" for i in range(site.X.shape[1])]
        rows = [",".join(map(str, [*row, label])) for row, label in zip(site.X.tolist(), site.y, strict=True)]
        text = ["% exported by hand", "@relation wine", *head, "@attribute cultivar string", "@data", *rows]
        (Path(scratch) / f"{site.name}.arff").write_text("\n".join(text))

    sites = [fedgeom.read_site(path, label="cultivar") for path in sorted(Path(scratch).glob("*.arff"))]

print(*sites, sep="\n")
run = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, seed=0)
fits = {site.name: f"{(run.model.predict(site.X) == site.y).mean():.0%}" for site in sites}
print("rows from .arff files that the joint model fits:", fits)
