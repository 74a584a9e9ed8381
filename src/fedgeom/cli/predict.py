"""``fedgeom predict``: use a saved model on a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedgeom.data.predictions import Predictions

Run = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of a run.")]
File = Annotated[
    Path,
    typer.Argument(help="The rows: .csv, .tsv, .npz, .parquet, .h5ad, or what an installed reader reads."),
]
Whose = Annotated[
    str | None,
    typer.Option(
        help="Use this site's own model: its words, its scale, its personal model. Needs the folder of a run."
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="The features, with commas between; all but the label and the index if not given. For a model that "
        "knows no names: in the order in which it learnt them."
    ),
]
IgnoreOthers = Annotated[
    bool,
    typer.Option("--ignore-others", help="Leave out columns that the model does not know, instead of stopping."),
]
AnyKinds = Annotated[
    bool,
    typer.Option(
        "--any-kinds",
        help="Take numbers of another kind than those that the model learnt from, such as 2 where all were 0 or 1.",
    ),
]
AsIs = Annotated[
    bool,
    typer.Option(
        "--as-is",
        help="Read the rows as they stand; otherwise as the study's file said: rename, units, missing, …",
    ),
]
Deeper = Annotated[
    bool,
    typer.Option("--deeper", help='With --site: tell apart the joint classes inside a word ("T cell › class 3").'),
]
Label = Annotated[
    str | None,
    typer.Option(help="A column to leave out of the features; with --site also the accuracy is told."),
]
Index = Annotated[
    str | None,
    typer.Option(
        help="The column with the names of the rows; if not given, the file's own index (obs_names of .h5ad), or "
        "the rows' numbers."
    ),
]
Probabilities = Annotated[bool, typer.Option("--probabilities", help="Write the probability of every class, too.")]
OnMap = Annotated[
    bool,
    typer.Option(
        "--map",
        help="Write where each row is on the hyperbolic map, too: columns map_1, map_2, in .h5ad obsm X_poincare.",
    ),
]
Unknown = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help='Call rows "unknown" that fit no class well: of rows of known classes about this share, such as 0.05.',
    ),
]
KnownRows = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Rows of known classes that the model did not learn from: for --unknown the measure of what fits; with "
        "--label, for --tree the measure of how often it is wrong.",
    ),
]
Tree = Annotated[
    list[Path],
    typer.Option(
        "--tree",
        metavar="FILE",
        help="Name a class's ancestor where the model is unsure. A tree of classes: .json, .csv or .tsv of class and "
        "parent, or an ontology, .obo. Several are read as one.",
    ),
]
Risk = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="For --tree: of how many rows the name may be wrong; 0.05 if not given."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Where to write to instead of the screen: .csv or .tsv, a table; .h5ad or .parquet, a copy of the rows "
        "with columns added."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace --out if it exists.")]


Target = Annotated[Path, typer.Argument(metavar="FILE.onnx", help="Where to write to.")]


def export(model: Run, file: Target, site: Whose = None, force: Force = False) -> None:
    """Write a model as an ONNX file, for programs that know nothing of fedgeom.

    It takes raw rows, preparation included, and gives the label and the probabilities of each. Linear and Fourier
    Ridge, Moments in Euclidean space, and training with the logistic learner can be written so.
    """
    from fedgeom.errors import InputError
    from fedgeom.storage import write_file

    if file.suffix != ".onnx":
        raise InputError(f"{file} given; wanted a file that ends in .onnx")
    if file.exists() and not force:
        raise InputError(f"{file} exists; give another name, or --force to replace it")
    data = _chosen(model, site, deeper=False, any_kinds=False).to_onnx()
    write_file(file, data)
    typer.echo(
        f"wrote {file} ({len(data):,} bytes): inputs in the order of the model's columns, label, probabilities"
    )


def predict(
    model: Run,
    file: File,
    site: Whose = None,
    columns: Features = None,
    ignore_others: IgnoreOthers = False,
    any_kinds: AnyKinds = False,
    deeper: Deeper = False,
    label: Label = None,
    index: Index = None,
    probabilities: Probabilities = False,
    on_map: OnMap = False,
    unknown: Unknown = None,
    known: KnownRows = None,
    tree: Tree = [],  # noqa: B006
    risk: Risk = None,
    as_is: AsIs = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Give every row of a file its class.

    Columns are found by their names, in whatever order they stand. With --site, they are scaled as that site's are,
    where the method has a scale for each site; without it, by the joint scale. Each row is judged by itself.
    """
    import sys

    import numpy as np

    from fedgeom.cli.screen import complain
    from fedgeom.data.labels import in_words
    from fedgeom.data.predictions import Predictions, as_text, check_target, write_predictions
    from fedgeom.data.readers import row_names
    from fedgeom.errors import InputError

    if out is not None:
        check_target(out, file, force=force)
    chosen = _chosen(model, site, deeper=deeper, any_kinds=any_kinds)
    if unknown is not None and known is None:
        chosen.fit_threshold(unknown)  # refuses before the work is done
    if unknown is None and known is not None and not tree:
        raise InputError("--known FILE is the measure for --unknown; say which share: --unknown 0.05")
    if tree and unknown is not None:
        raise InputError("--tree and --unknown given; both say what to call rows that are unsure: leave one out")
    if risk is not None and not tree:
        raise InputError("--risk given; it is for --tree FILE, which says what classes are under")

    how = {} if as_is else study_reading(model, site)
    if how:
        complain(
            f"read as the study's file says ({', '.join(how)}); --as-is reads the rows as they stand", style="dim"
        )
    shown = None if known is None else _read(known, chosen, columns, ignore_others, label, index, how)
    if shown is not None and not tree:
        chosen = chosen.with_known(shown.X if chosen.preparation is None else shown)
    table = _read(file, chosen, columns, ignore_others, label, index, how)
    names = row_names(file, table, index)
    raw = chosen
    chosen, table = _prepared(chosen, table, file)
    places = _places(raw, chosen, table.X) if on_map else None
    found = np.asarray(chosen.predict(table.X))
    chances = chosen.predict_proba(table.X) if hasattr(chosen, "predict_proba") else None
    if probabilities and chances is None:
        raise InputError(f"{chosen!r} gives no probabilities; leave out --probabilities")
    made = Predictions(names, found, None if chances is None else chances.max(axis=1), places=places)
    if probabilities:
        made = replace(made, classes=tuple(map(str, chosen.classes_)), probabilities=chances)
    if unknown is not None:
        made = replace(made, found=_or_unknown(chosen, table.X, unknown), best=found)
    if tree:
        if shown is not None and shown.y is None:
            raise InputError(f"{known} has no labels to measure by; name their column: --label COLUMN")
        made = _backed_off(made, chosen, table.X, tree, 0.05 if risk is None else risk, raw, shown)
    if out is None:
        sys.stdout.write(as_text(made))
    else:
        write_predictions(out, file, made, table.columns)
        complain(f"{len(found):,} rows: {out}, {_what_is_in(out, made)}", style="green")
    if table.y is not None and site is not None:
        share = np.mean(in_words(found).astype(str) == table.y.astype(str))
        complain(f"{share:.3f} of {len(table.y)} rows agree with {label!r}", style="green")


def _places(model: Any, bare: Any, X: Any) -> Any:
    """Return where prepared rows are on the map of a model; ``bare``: the model that takes such rows."""
    from fedgeom.errors import InputError
    from fedgeom.preparation import LandmarkMap

    if hasattr(bare, "transform"):
        return bare.transform(X)
    if bare.in_disc:
        return bare.to_disc(X)
    if model.preparation is not None and isinstance(model.preparation.steps[-1], LandmarkMap):
        return X
    raise InputError(
        f"--map given; {model!r} has rows on no map. Those that have are PoincareMap, Hulls, and other methods whose "
        "preparation ends with a map"
    )


def _what_is_in(out: Path, made: Predictions) -> str:
    from fedgeom.data.predictions import ADDED, OBSM_MAP

    if out.suffix == ".h5ad" and made.places is not None:
        return "a copy with " + ", ".join([*(f"{ADDED}{name}" for name in made.columns()), f"obsm {OBSM_MAP}"])
    if out.suffix in (".h5ad", ".parquet"):
        return "a copy with " + ", ".join(f"{ADDED}{name}" for name in made.all_columns())
    return "a table of " + ", ".join(made.all_columns())


def _chosen(path: Path, site: str | None, *, deeper: bool, any_kinds: bool) -> Any:
    """Return the model that answers: with ``deeper`` one that tells apart what is inside a site's words."""
    from fedgeom.errors import InputError

    chosen = load(path, site)
    if any_kinds:
        chosen = chosen.with_columns(chosen.column_names)
    if deeper and not hasattr(chosen, "deeper"):
        raise InputError(
            f'--deeper given; {chosen!r} has no classes inside others (Ellipses with depth="mixed" has)'
        )
    return chosen.deeper() if deeper else chosen


def _backed_off(
    made: Predictions, model: Any, X: Any, files: list[Path], risk: float, raw: Any, shown: Any
) -> Predictions:
    """Return predictions as deep in a class tree as they are sure; ``raw`` takes the rows that are known, as read."""
    import numpy as np

    from fedgeom.cli.screen import complain
    from fedgeom.data.class_trees import read_class_tree
    from fedgeom.data.tables import listed
    from fedgeom.errors import InputError

    if not hasattr(model, "predict_proba"):
        raise InputError(f"--tree given; {model!r} gives no probabilities, by which it could be unsure")
    classes = [str(name) for name in model.classes_]
    tree, missing = read_class_tree(files, classes)
    if missing:
        complain(f"the tree does not have {listed(missing)}; they are at its root", style="yellow")
    confidence, rule = 1 - risk, f"names are at least {1 - risk:g} likely, if the model's probabilities are right"
    if shown is not None:
        number = {name: at for at, name in enumerate(tree.nodes)}
        true = [number.get(word, -1) for word in shown.y.astype(str).tolist()]
        rows = shown.X if raw.preparation is None else shown
        confidence = tree.confidence_for(raw.predict_proba(rows), true, risk)
        rule = (
            f"from a probability of {confidence:.3f} on, by which {risk:g} of rows like the known ones are wrong"
        )
    nodes, chances = tree.confident(model.predict_proba(X), confidence)
    held = int((~np.isin(nodes, tree.classes)).sum())
    complain(f"{held:,} of {len(nodes):,} rows have an ancestor's name: {rule}", style="dim")
    return replace(made, found=np.array(tree.nodes)[nodes], probability=chances, best=made.found)


def _or_unknown(model: Any, X: Any, share: float) -> Any:
    """Return the classes of rows, "unknown" where they fit none, and say how many and by what rule."""
    from fedgeom.cli.screen import complain

    found = model.predict_or_unknown(X, share)
    count = int((found == "unknown").sum())
    _, rule = model.fit_threshold(share)
    complain(f"{count:,} of {len(found):,} rows are called unknown: {rule}", style="dim")
    return found


def load(run: Path, site: str | None) -> Any:
    """Return the joint model of a run, or a site's own; where only sites have one, say so and name them."""
    from fedgeom.errors import InputError
    from fedgeom.methods.catalogue import load_model

    if site is not None:
        return load_model(site_model(run, site))
    model = load_model(run)
    if not model.everywhere:
        known = site_models(run)
        whose = f"--site with one of {', '.join(known)}" if known else "the folder of the run, and --site"
        raise InputError(
            f"the {model.method} run has no joint model that could predict: each site has its own; give {whose}"
        )
    return model


def study_reading(run: Path, site: str | None) -> dict[str, Any]:
    """Return how the study's file had tables read, or this site's, where the run's folder says it."""
    import msgspec

    from fedgeom.deploy.federation_file import READING

    file = (run if run.is_dir() else run.parent) / READING
    if not file.is_file():
        return {}
    content = msgspec.json.decode(file.read_bytes())
    found: dict[str, Any] = content["sites"].get(site, content["all"])
    return found


def _read(
    file: Path,
    model: Any,
    columns: str | None,
    ignore_others: bool,
    label: str | None,
    index: str | None,
    how: dict[str, Any],
) -> Any:
    """Return the file's table with its columns in the model's order."""
    import numpy as np

    from fedgeom.cli.screen import complain
    from fedgeom.data.columns import in_order
    from fedgeom.data.kinds import check_kinds
    from fedgeom.data.readers import read_table
    from fedgeom.data.tables import TextColumnsError, listed
    from fedgeom.errors import InputError

    wanted = columns.split(",") if columns and "," in columns else columns
    if ignore_others:
        if columns is not None or not model.column_names:
            why = "--columns says which to take" if columns is not None else "the model knows no names of columns"
            raise InputError(f"--ignore-others given, but {why}; leave it out")
        wanted = list(model.column_names)
    beside = () if index is None else (index,)
    if model.preparation is not None:
        return _read_raw(file, model, wanted, label, beside, how)
    try:
        table = read_table(file, columns=wanted, label=label, also=beside, reading=how)
    except TextColumnsError as error:
        strange = [name for name in error.words if name not in model.column_names]
        if not model.column_names or len(strange) < len(error.words):
            raise
        raise InputError(
            f"{file}: the model does not know {listed(strange)}, with text instead of numbers. If it has the names of "
            f"the rows: --index {strange[0]}; the labels: --label {strange[0]}; to leave out all columns that the "
            "model does not know: --ignore-others"
        ) from error
    if table.columns and not model.column_names and not isinstance(wanted, list):
        complain(
            "the model knows no names of columns: those of the file are taken in the order in which they stand; "
            "--columns says another. A site's own model has the names: --site, or results/RUN in the site's folder"
        )
    rows = in_order(table.X, model.column_names, str(file), table.columns)
    if table.columns:
        check_kinds(np.asarray(rows), model.column_names, model.column_kinds, str(file), table.first_row)
    return replace(table, X=rows)


def _read_raw(
    file: Path, model: Any, wanted: Any, label: str | None, also: tuple[str, ...], how: dict[str, Any]
) -> Any:
    """Return a raw file's table as it came, with its columns of text; those that the model does not know are left."""
    from fedgeom.data.readers import read_table
    from fedgeom.errors import InputError

    how = how | {"categorical": model.preparation.raw.texts}
    table = read_table(file, columns=wanted, label=label, also=also, as_it_came=True, text=True, reading=how)
    named = set(model.column_names)
    if named and table.columns and not named & set(table.columns):
        raise InputError(f"{file} has none of the raw columns that the model learnt from")
    return table


def _prepared(model: Any, table: Any, file: Path) -> tuple[Any, Any]:
    """Return a model that takes rows as they are, and the table's rows prepared for it; say what is far from known."""
    from fedgeom.cli.screen import complain
    from fedgeom.errors import InputError

    if model.preparation is None:
        return model, table
    try:
        rows = model.preparation.rows(table)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    for name, (middle, mean, deviation) in model.preparation.far_columns(rows).items():
        complain(
            f"warning: {file}: half of column {name!r} is beyond {middle:.4g}; the rows that were learnt from have "
            f"{mean:.4g} ± {deviation:.3g}: is it in another unit? (units in the site's block, docs/files.md)",
            style="yellow",
        )
    return model.bare().with_labels(model.label_type), replace(table, X=rows)


def site_model(run: Path, site: str) -> Path:
    """Return where a site's own model is in the folder of a run: in its words, or its personal one."""
    from fedgeom.errors import InputError

    if not run.exists():
        raise InputError(f"{run} does not exist; wanted the folder of a run, such as runs/NAME-1")
    known = site_models(run)
    if site not in known:
        raise InputError(
            f"{run} holds no model of a site {site!r}; it has those of {', '.join(known) or 'none'}. Give the folder "
            "of a run, and the name of one of its sites"
        )
    return known[site]


def site_models(run: Path) -> dict[str, Path]:
    """Return the sites' own models in the folder of a run, by the sites' names as they were given."""
    import msgspec

    found = {}
    for file in sorted((run / "sites").glob("*.safetensors")):
        about = file.with_suffix(".json")
        found[msgspec.json.decode(about.read_bytes())["site"] if about.is_file() else file.stem] = file
    return found
