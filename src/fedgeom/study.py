"""Comparisons and sweeps in Python: the rows, splits, tables and recommendation of the command line."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedgeom.data.sites import SiteData, as_sites
from fedgeom.engines.benchmark import check_effort, combinations, drawn, hash_tables, with_rivals, write_sweep
from fedgeom.engines.benchmark import sweep as run_all
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import JUDGED, MethodResult, Sweep, recommendation
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import Choice
from fedgeom.methods.catalogue import as_method
from fedgeom.registry import did_you_mean
from fedgeom.report.table import to_html, to_terminal
from fedgeom.report.tables import sweep_page, sweep_tables
from fedgeom.storage import make_private_folder, write_text

WIDTH = 150
"""How many characters wide a table is printed where nobody knows better."""
MethodOrName = Method | type[Method] | str
Methods = Sequence[MethodOrName] | Mapping[str, MethodOrName | Sequence[MethodOrName]]
"""Methods in a list, or by the name of their row; there a list has the settings that the row tries."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """What came of `fedgeom.compare` or `fedgeom.sweep`; in a notebook it shows itself as tables."""

    swept: Sweep
    """All outcomes, with every figure."""
    folder: Path | None = None
    """Where outcomes are kept; None: nowhere."""

    @property
    def recommendation(self) -> str:
        """Which row to take, and why."""
        return recommendation(self.swept)

    def frame(self) -> Any:
        """Return every figure of every run as a pandas frame, or as records without pandas."""
        return self.swept.frame()

    def save(self, folder: str | Path, name: str = "comparison") -> list[Path]:
        """Write NAME.json, NAME.csv and NAME.html into a folder, and return their paths."""
        written = write_sweep(make_private_folder(folder), name, self.swept)
        page = sweep_page(self.swept, name)
        return [*written, write_text(Path(folder) / f"{name}.html", page, private=True)]

    def __repr__(self) -> str:
        from rich.console import Console  # slow to import, and only where a table is printed

        text = io.StringIO()
        console = Console(file=text, width=WIDTH, color_system=None, highlight=False, markup=False)
        console.print(to_terminal(*sweep_tables(self.swept)))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def _repr_html_(self) -> str:
        return "".join(f"<b>{one.title}</b>{to_html(one)}" for one in sweep_tables(self.swept))


def compare(
    methods: Methods,
    sites: Sequence[SiteData],
    *,
    seeds: int | Sequence[int] = 3,
    holdout: float | Holdout = 0.25,
    policy: Policy | None = None,
    rivals: bool = True,
    folder: str | Path | None = None,
    n_jobs: int = 1,
    watch: Callable[[MethodResult], None] | None = None,
) -> Comparison:
    """Run several methods on the same rows and splits; every run goes through the whole protocol.

    Beside the methods stand the majority class, logistic regression at each site alone and on pooled rows, and for each
    network or module the same network trained at each site alone and on pooled rows. One that fails says why and stops
    no other.

    Parameters
    ----------
    methods: a list of methods, their classes or names; or these by the name of their row
        Those of the same name are told apart by their settings.
    sites: a list of `SiteData`
        The sites, with different names.
    seeds: a whole number or several; 3 if not given
        How many, from 0 on, or which. Each keeps other rows aside. From two on, differences are paired.
    holdout: a share or a `Holdout`; 0.25 if not given
        The rows that each site keeps aside to test on.
    policy: a `Policy` or None; None if not given
        The rules of every site. None: those of `Policy()`.
    rivals: true or false; true if not given
        Whether networks are trained at each site alone and on pooled rows as well.
    folder: a path or None; None if not given
        Where every outcome is kept when it is there: called again, only the rest is run.
    n_jobs: a whole number of at least 1; 1 if not given
        How many runs go on side by side, each in a process of its own.
    watch: a function or None; None if not given
        Called with each outcome.

    Returns
    -------
    Comparison
        It prints as the table of ``fedgeom compare``; ``.frame()`` has every figure.
    """
    rows = _rows(methods)
    for name, found in rows.items():
        if len(found) > 1:
            raise InputError(
                f"row {name!r} has {len(found)} settings; compare runs one for each row, fedgeom.sweep chooses "
                "among them"
            )
    return _run("compare", rows, {}, sites, seeds, holdout, JUDGED, policy, rivals, folder, n_jobs, watch)


def sweep(
    methods: Methods,
    sites: Sequence[SiteData],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    tries: int | None = None,
    effort: Literal["equal", "any"] = "equal",
    by: str = JUDGED,
    seeds: int | Sequence[int] = 3,
    holdout: float | Holdout = 0.25,
    policy: Policy | None = None,
    rivals: bool = True,
    folder: str | Path | None = None,
    n_jobs: int = 1,
    watch: Callable[[MethodResult], None] | None = None,
) -> Comparison:
    """Choose settings for each row on rows set aside, and test what was chosen on others, seed by seed.

    Parameters
    ----------
    methods: as for `compare`
        By row names, a list of methods has the settings that a row tries.
    sites: as for `compare`
    grid: values by setting, or None; None if not given
        Every combination is tried in every row.
    grids: such grids by the name of a row, or None; None if not given
        What single rows try beside or instead of that.
    tries: a whole number or None; None if not given
        How many of its settings each row tries, drawn at random, always the same; None: all.
    effort: "equal" or "any"; "equal" if not given
        "equal": rows that try different numbers of settings or train for different times are refused.
    by: accuracy, balanced_accuracy, macro_f1 or auc; balanced_accuracy if not given
        The figure that settings are chosen by.
    seeds: as for `compare`; 3 if not given
    holdout: as for `compare`; 0.25 if not given
    policy: as for `compare`; None if not given
    rivals: as for `compare`; true if not given
    folder: as for `compare`; None if not given
    n_jobs: as for `compare`; 1 if not given
    watch: as for `compare`; None if not given

    Returns
    -------
    Comparison
        It prints as the tables of ``fedgeom sweep``; ``.frame()`` has every figure.
    """
    if effort not in ("equal", "any"):
        raise InputError(f'effort={effort!r} given; wanted "equal" or "any"')
    rows = _rows(methods)
    own = grids or {}
    unknown = next((name for name in own if name not in rows), None)
    if unknown is not None:
        raise InputError(
            f"grids names a row {unknown!r}; there are {', '.join(rows)}.{did_you_mean(unknown, rows)}"
        )
    made: dict[str, list[Method]] = {}
    said: dict[str, list[dict[str, Any]]] = {}
    for name, found in rows.items():
        values = {**(grid or {}), **own.get(name, {})}
        flat = next((key for key, some in values.items() if isinstance(some, str) or not _several(some)), None)
        if flat is not None:
            raise InputError(
                f"grid: {flat}={values[flat]!r} given; wanted a list of values, such as [{values[flat]!r}]"
            )
        steps = combinations(values)
        settings = drawn("sweep:", name, [{"": at} | one for at in range(len(found)) for one in steps], tries)
        made[name] = [_with(found[one[""]], {key: value for key, value in one.items() if key}) for one in settings]
        said[name] = [_told(found[one[""]], found, one) for one in settings]
    if effort == "equal":
        check_effort("sweep", made)
    return _run("sweep", made, said, sites, seeds, holdout, by, policy, rivals, folder, n_jobs, watch)


def _several(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, Mapping)


def _with(method: Method, settings: Mapping[str, Any]) -> Method:
    """Return a method with other settings; names that it does not have are refused as its class refuses them."""
    kept = {one.name: getattr(method, one.name) for one in dataclasses.fields(method) if one.init}
    return type(method)(**{**kept, **settings})


def _told(method: Method, all_: Sequence[Method], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a setting is called in the tables: where it differs from the others of its row."""
    plain = {key: value.plain() if isinstance(value, Choice) else value for key, value in setting.items() if key}
    terms = method.terms()
    return {name: terms[name] for name in _different(method, all_)} | plain


def _different(method: Method, others: Sequence[Method]) -> list[str]:
    """Return the settings of a method that some of the others have otherwise."""
    fields = [one.name for one in dataclasses.fields(method) if one.init]
    names = [name for name in fields if any(getattr(one, name, None) != getattr(method, name) for one in others)]
    return [name for name in names if name != "learner" or "network" not in names]


def _rows(methods: Methods) -> dict[str, list[Method]]:
    """Return what is to be run, by the name of its row."""
    if isinstance(methods, Mapping):
        return {
            str(name): [as_method(one) for one in (some if isinstance(some, list | tuple) else [some])]
            for name, some in methods.items()
        }
    if not _listed(methods):
        raise InputError(
            f"methods={methods!r} given; wanted several in a list, [fedgeom.FedAvg(), fedgeom.Ridge()], or by the "
            'names of their rows, {"mine": fedgeom.FedAvg()}'
        )
    found = [as_method(one) for one in methods]
    if not found:
        raise InputError("no methods are given; wanted a list such as [fedgeom.FedAvg(), fedgeom.Ridge()]")
    rows: dict[str, list[Method]] = {}
    for one in found:
        same = [other for other in found if other.name == one.name]
        own = ", ".join(f"{name} = {_short(getattr(one, name))}" for name in _different(one, same))
        name = f"{one.name} ({own})" if own else one.name
        if name in rows:
            raise InputError(f"{name} is given twice, with the same settings; give it once")
        rows[name] = [one]
    return rows


def _listed(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _run(
    kind: str,
    rows: Mapping[str, Sequence[Method]],
    settings: Mapping[str, Sequence[dict[str, Any]]],
    sites: Sequence[SiteData],
    seeds: int | Sequence[int],
    holdout: float | Holdout,
    by: str,
    policy: Policy | None,
    rivals: bool,
    folder: str | Path | None,
    n_jobs: int,
    watch: Callable[[MethodResult], None] | None,
) -> Comparison:
    tables = as_sites(sites)
    if isinstance(seeds, bool) or (isinstance(seeds, int) and seeds < 1):
        raise InputError(f"seeds={seeds!r} given; wanted how many, 1 or more, or which, such as [0, 1, 2]")
    which = list(range(seeds)) if isinstance(seeds, int) else [int(one) for one in seeds]
    said = f"fedgeom.{kind}({_listing(rows)}, sites, seeds={which}, holdout={_code(holdout)}"
    said += f', by="{by}"' if by != JUDGED else ""
    command = f"{said}); sites with the hash {hash_tables(tables)[:8]}"
    made, told = with_rivals(rows, settings) if rivals else (dict(rows), dict(settings))
    swept = run_all(
        made,
        tables,
        seeds=which,
        holdout=holdout,
        by=by,
        policy=policy,
        settings=told,
        folder=folder,
        watch=watch,
        n_jobs=n_jobs,
        command=command,
    )
    return Comparison(swept, None if folder is None else Path(folder))


def _listing(rows: Mapping[str, Sequence[Method]]) -> str:
    """Write the methods as one calls them."""
    return f"{{{', '.join(f'{name!r}: {_written(found)}' for name, found in rows.items())}}}"


def _written(found: Sequence[Method]) -> str:
    made = [_code(one) for one in found]
    return made[0] if len(made) == 1 else f"[{', '.join(made)}]"


def _short(value: Any) -> str:
    """Return a setting as the name of a row has it: a choice by its name, where all else is as usual."""
    if isinstance(value, Choice):
        code = _code(value)
        return value.name if code.endswith("()") else code
    return "none" if value is None else str(value)


def _code(value: Any) -> str:
    """Write a value as one writes it in Python; of settings what is not as usual.

    >>> from fedgeom import FedAvg
    >>> _code(FedAvg(n_rounds=3, personal="finetuned"))
    'FedAvg(n_rounds=3, personal=FineTuned())'
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type | msgspec.Struct):
        return repr(value)
    settings = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
    own: dict[str, Any] = {}
    if all(_has_default(one) for one in dataclasses.fields(value)):
        for _ in range(2):  # what is given may settle what else is taken
            usual = type(value)(**own)
            own = {
                name: own.get(name, one)
                for name, one in settings.items()
                if name in own or getattr(usual, name) != one
            }
    else:
        own = settings
    if getattr(value, "network", None) is not None:  # which implies the learner
        own.pop("learner", None)
    return f"{type(value).__name__}({', '.join(f'{name}={_code(one)}' for name, one in own.items())})"


def _has_default(one: dataclasses.Field[Any]) -> bool:
    return one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
