"""A method's settings: fields with declared constraints, checked in one place, that travel as the terms of a run.

A setting is a field of a frozen dataclass. What it may be is said by its type: ``Literal`` names choices, ``Annotated``
with `Between` gives bounds, and a class made by `choice` stands for small objects with settings of their own, which may
also be given by name or as a table::

    n_rounds: Annotated[int, Between(1, 500)] = 15
    aggregation: Aggregation = Mean()           # or "median", or {"name": "trimmed", "trim": 0.3}
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
import sys
import textwrap
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from fedgeom.errors import InputError
from fedgeom.memo import memoize
from fedgeom.registry import Registry, did_you_mean

Terms = Mapping[str, Any]
"""The settings of a run as plain values: numbers, text, None, lists, tables of these and of lists by name."""


@dataclass(frozen=True)
class Between:
    """Bounds of a number, both included unless said otherwise."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: float) -> bool:
        """Say whether a number lies within; NaN never does."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{'above' if self.open_low else 'of at least'} {self.low:g}"
        if math.isinf(self.low):
            return f"{'below' if self.open_high else 'of at most'} {self.high:g}"
        edges = [f"{self.low:g} (excluded)" if self.open_low else f"{self.low:g}"]
        edges.append(f"{self.high:g} (excluded)" if self.open_high else f"{self.high:g}")
        return f"from {edges[0]} to {edges[1]}"


@dataclass(frozen=True)
class Distinct:
    """Several one-line names, all different."""

    at_least: int = 1

    def allows(self, value: tuple[str, ...]) -> bool:
        """Say whether there are enough, all different and without line ends."""
        plain = all(name and "\n" not in name for name in value)
        return plain and len(set(value)) == len(value) >= self.at_least

    def __str__(self) -> str:
        return f"that are one line each and all different, {self.at_least} of them or more"


ClassNames = Annotated[tuple[str, ...], Distinct(2)] | None
"""The agreed label names, or None: then the sites work out the union of theirs."""

FORMER_NAMES: dict[str, tuple[str, ...]] = {
    "anchors": ("n_anchors",),
    "batch": ("batch_size",),
    "beta": ("server_momentum",),
    "bins": ("n_bins",),
    "bits": ("hash_bits",),
    "borrowed": ("prior_rows",),
    "clip": ("max_grad_norm",),
    "clusters": ("n_clusters",),
    "code": ("n_nearest",),
    "components": ("n_components",),
    "count": ("n_components", "n_columns"),
    "described": ("descriptor_input",),
    "drift_rate": ("drift_factor",),
    "embedding": ("embedding_dim",),
    "engine": ("algorithm",),
    "every": ("relabel_every",),
    "filters": ("n_filters",),
    "first_described": ("first_descriptor_round",),
    "flip": ("flip_probability",),
    "folds": ("n_folds",),
    "group": ("group_size",),
    "groups": ("n_groups",),
    "halves": ("half_labelled",),
    "indicators": ("add_indicator",),
    "inner_rate": ("inner_learning_rate",),
    "largest_change": ("max_abs_change",),
    "largest_entry": ("max_abs_value",),
    "limit": ("max_value",),
    "lumps": ("n_components",),
    "min_batch": ("min_batch_size",),
    "mixed": ("min_effective_sites",),
    "most_clusters": ("max_clusters",),
    "neighbours": ("n_neighbors",),
    "outer_rate": ("outer_learning_rate",),
    "pad": ("padding",),
    "pairs": ("n_pairs",),
    "part": ("max_sum_length",),
    "patch": ("patch_size",),
    "points": ("n_points",),
    "rate": ("learning_rate",),
    "repeats": ("n_repeats",),
    "rounds": ("n_rounds",),
    "server_rate": ("server_learning_rate",),
    "share": ("participation",),
    "shuffles": ("n_shuffles",),
    "steps": ("max_iter",),
    "target": ("target_sum",),
    "tolerance": ("tol",),
    "validation": ("validation_fraction",),
    "warm": ("warmup_rounds",),
}
"""What settings were called before version 0.2, and what those are called now that they became."""


def is_called_now(name: str, known: Iterable[str]) -> str:
    """Return what a setting with a former name is called now, as the end of a sentence; "" where it never had one.

    >>> is_called_now("rate", ["n_rounds", "learning_rate"])
    "it is called 'learning_rate' now"
    """
    there = set(known)
    found = next((new for new in FORMER_NAMES.get(name, ()) if new in there), "")
    return f"it is called {found!r} now" if found else ""


ELSEWHERE: dict[str, str] = {
    "client_fraction": "participation",
    "client_lr": "learning_rate",
    "clients_per_round": "participation",
    "comm_rounds": "n_rounds",
    "eta": "learning_rate",
    "fraction_fit": "participation",
    "global_rounds": "n_rounds",
    "local_epochs": "epochs",
    "local_lr": "learning_rate",
    "local_steps": "steps",
    "lr": "learning_rate",
    "model": "learner",
    "n_clients": "n_sites",
    "n_epochs": "epochs",
    "net": "network",
    "num_epochs": "epochs",
    "num_rounds": "n_rounds",
    "random_state": "seed",
    "server_lr": "server_learning_rate",
}
"""What settings are called in other libraries and in papers, and here."""


POSITIVE = Between(0, math.inf, open_low=True, open_high=True)
SHARE = Between(0, 1)


@dataclass(frozen=True)
class Choice:
    """The base of small objects that are settings: an aggregation, a schedule, a personal part.

    A kind of choice is a direct subclass, which names itself (``kind``); what there is of the kind are subclasses of
    that, each with a ``name``. Packages offer more by entry points of the group ``fedgeom.<kind>s``.
    """

    kind: ClassVar[str]
    plural: ClassVar[str] = ""
    """The kind's plural where it is not made with an s."""
    wanted: ClassVar[str] = ""
    """What is wanted of a kind that has no names to choose from."""
    name: ClassVar[str]
    registry: ClassVar[Registry]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        documented(cls)
        if Choice in cls.__bases__:
            cls.registry = Registry(cls.kind, f"fedgeom.{cls.plural or cls.kind + 's'}")
        elif "name" in cls.__dict__:
            cls.registry.add(cls.name, cls)

    def __new__(cls, *values: Any, **settings: Any) -> Self:
        """Say what a setting is called now that is given by its former name."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            now = "" if name in known else is_called_now(name, known)
            if now:
                raise InputError(f"{cls.__name__} has no setting {name!r}; {now}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return a choice from an object, a name, or a table with a name and settings."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            home = "fedgeom.extend" if cls.__module__.startswith("fedgeom.methods.") else cls.__module__
            raise InputError(
                f"{setting}={shown(value)} given; wanted a name ({cls.registry}) or a table with a name, or an object "
                f"whose base class is {home}.{cls.__name__}"
            )
        found = cls.registry.find(value["name"], what=setting)
        given = {key: one for key, one in value.items() if key != "name"}
        known = [field.name for field in dataclasses.fields(found)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            takes = is_called_now(unknown[0], known) or (f"it has {', '.join(known)}" if known else "it has none")
            raise InputError(f"{setting}: {value['name']!r} has no setting {unknown[0]!r}; {takes}")
        made: Self = found(**given)
        return made

    def plain(self) -> str | dict[str, Any]:
        """Return the choice as it travels: its name, or a table."""
        settings = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"name": self.name, **settings} if settings else self.name


@memoize(1024)
def _hints(cls: type[Any]) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def check_fields(settings: Any) -> None:
    """Check every field of a dataclass against its type, and write plain Python values back into it."""
    hints = _hints(type(settings))
    for field in dataclasses.fields(settings):
        value = read_value(field.name, getattr(settings, field.name), hints[field.name])
        object.__setattr__(settings, field.name, value)


def read_value(name: str, value: Any, kind: Any) -> Any:
    """Return a value as its type says, or raise `InputError` that says what was given and what is wanted."""
    value = _without_numpy(value)
    fits, found = _fit(name, value, kind)
    if not fits and not is_finite(value):
        raise InputError(
            f"{name}={value!r} given; wanted {'finite numbers' if kind is Any else wanted(kind)}. No setting is inf or "
            "nan: what a steward is shown must be what was hashed, and JSON has neither; take a finite number"
        )
    if not fits:
        hint = did_you_mean(value, _names(kind)) if isinstance(value, str) else ""
        raise InputError(f"{name}={shown(value)} given; wanted {wanted(kind)}{'.' if hint else ''}{hint}")
    return found


def is_finite(value: Any) -> bool:
    """Say whether no number in a plain value, lists and tables included, is infinite or NaN.

    >>> is_finite({"scale": [1.0, "inf", None]}), is_finite({"scale": [1.0, math.inf]})
    (True, False)
    """
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(is_finite, value))


def shown(value: Any) -> str:
    """Write a value that was given, in short where it is long.

    >>> shown(0.5), shown([0] * 100)
    ('0.5', '[0, 0, 0, 0, 0, 0, 0, 0, …] (a list of 100)')
    """
    if isinstance(value, list | tuple) and len(value) > MOST_SHOWN:
        return f"{repr(list(value[:MOST_SHOWN]))[:-1]}, …] (a {type(value).__name__} of {len(value)})"
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"


MOST_SHOWN = 8


def _without_numpy(value: Any) -> Any:
    """Return NumPy's numbers, texts and arrays of these, also inside lists, as Python's own: others cannot travel."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()  # of an array without axes its number
    if isinstance(value, list | tuple) and any(isinstance(one, np.generic | np.ndarray) for one in value):
        return [_without_numpy(one) for one in value]
    return value


def _names(kind: Any) -> list[str]:
    """Return the texts among which a type lets one choose."""
    inside = get_args(kind)
    if get_origin(kind) is Literal:
        return [one for one in inside if isinstance(one, str)]
    return [name for one in inside for name in _names(one)]


def _fit(name: str, value: Any, kind: Any) -> tuple[bool, Any]:
    """Return whether a value fits a type, and the value as it is kept."""
    origin = get_origin(kind)
    inside = get_args(kind)
    if kind is Any:
        return is_finite(value), value
    if origin in (Union, types.UnionType):
        options = (_fit(name, value, one) for one in inside if value is not None or not _is_choice(one))
        return next(((True, found) for fits, found in options if fits), (False, value))
    if hasattr(kind, "__metadata__"):  # Annotated
        fits, found = _fit(name, value, inside[0])
        return fits and all(one.allows(found) for one in kind.__metadata__ if hasattr(one, "allows")), found
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inside), value
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, list | tuple):
            return False, value
        parts = [_fit(name, one, inside[0]) for one in value]
        return all(fits for fits, _ in parts), tuple(found for _, found in parts)
    if _is_choice(kind):
        return True, kind.read(value, name)
    return _fit_plain(value, kind)


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Choice)


def _fit_plain(value: Any, kind: Any) -> tuple[bool, Any]:
    if kind is None or kind is type(None):
        return value is None, value
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number and abs(value) <= sys.float_info.max  # not inf, not NaN, no whole number beyond
        return fits, float(value) if fits else value
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    return isinstance(value, kind) and is_finite(value), value


def wanted(kind: Any) -> str:
    """Say in words what a type allows."""
    origin = get_origin(kind)
    inside = get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(wanted(one) for one in inside)
    if hasattr(kind, "__metadata__"):
        if inside[0] is Any:
            return str(kind.__metadata__[0])
        bounds = " and ".join(str(one) for one in kind.__metadata__ if hasattr(one, "allows"))
        return f"{wanted(inside[0])} {bounds}".rstrip()
    if origin is Literal:
        return "one of " + ", ".join(repr(one) for one in inside)
    if origin is tuple:
        return f"a list of {wanted(inside[0]).removeprefix('a ').removeprefix('an ')}s"
    if _is_choice(kind):
        return kind.wanted or f"one of {kind.registry}"
    words = {float: "a number", int: "a whole number", bool: "True or False", str: "a text", type(None): "None"}
    return words.get(kind, str(getattr(kind, "__name__", kind)))


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Choice) else value


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of what a method's two halves both know: its settings, and what follows from them alone."""

    def __post_init__(self) -> None:
        check_fields(self)

    def terms(self) -> dict[str, Any]:
        """Return the settings as plain values, as they travel, are hashed, approved and written down."""
        found = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            several = isinstance(value, tuple)
            found[field.name] = tuple(_plain(one) for one in value) if several else _plain(value)
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as scikit-learn asks for them; ``deep`` adds those of choices (`a__b`)."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        choices = {name: value for name, value in found.items() if deep and isinstance(value, Choice)}
        for name, value in choices.items():
            found |= {f"{name}__{one.name}": getattr(value, one.name) for one in dataclasses.fields(value)}
        return found

    def set_params(self, **changes: Any) -> Self:
        """Refuse changes: settings are what was agreed on. A method with others is a new one."""
        if changes:
            wanted_ = ", ".join(f"{name}=…" for name in changes)
            raise InputError(
                f"settings never change; make new ones: dataclasses.replace(method, {wanted_}), or in a search of "
                "scikit-learn's let fedgeom.FederatedClassifier hold the method"
            )
        return self

    def __sklearn_clone__(self) -> Self:
        """Return itself: what never changes need not be copied."""
        return self

    def shows_one_site(self) -> str:
        """Say what the coordinator sees of one site alone (``secure_only`` sites then do not join); "": sums only."""
        return ""

    def against_floors(self) -> str:
        """Say why no site whose policy has floors takes part (``single_site_classes``), and what to do; "": they do."""
        return ""

    private_units: ClassVar[tuple[str, ...]] = ()
    """Who noise can protect: "row", "site", or nobody, where nothing bounds what one adds."""

    @property
    def rows_per_step(self) -> int | None:
        """The rows per gradient step, for the policy's ``min_batch_size``; None: all of a site's, or no steps."""
        return None

    @property
    def most_features(self) -> int:
        """How many features' products are added up at most (the policy's ``max_features``); 0: of none."""
        return 0

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Build the settings from plain values: at a site from a run's terms, or from a federation file."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(terms) - set(known))
        if unknown:
            now = is_called_now(unknown[0], known)
            if now:
                raise InputError(f"{cls.__name__} has no setting {unknown[0]!r}; {now}")
            hint = did_you_mean(unknown[0], known)
            raise InputError(
                f"there is no setting {unknown[0]!r}; there are: {', '.join(known)}{'.' if hint else ''}{hint}"
            )
        return cls(**terms)


@dataclass(frozen=True)
class Parameter:
    """One setting of a method."""

    name: str
    wanted: str
    """What it may be, in words."""
    default: str
    """What it is if it is not given; "" where it must be given."""
    meaning: str
    """What its docstring says; "" where there is none."""

    def __str__(self) -> str:
        otherwise = f"; {self.default} if not given" if self.default else ""
        meaning = f"\n{textwrap.indent(self.meaning, '    ')}" if self.meaning else ""
        return f"{self.name}: {self.wanted}{otherwise}{meaning}"


def parameters(cls: type[Any]) -> tuple[Parameter, ...]:
    """Return the settings of a method, in the order of its fields."""
    hints = get_type_hints(cls, include_extras=True)
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base) or issubclass(base, msgspec.Struct):
            meanings |= _field_docstrings(base)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else msgspec.structs.fields(cls)
    return tuple(
        Parameter(field.name, wanted(hints[field.name]), _default(field), meanings.get(field.name, ""))
        for field in fields
        if getattr(field, "init", True)
    )


def _default(field: Any) -> str:
    """Write the default of a dataclass's or a struct's field as one would write it in Python."""
    missing = (dataclasses.MISSING, msgspec.NODEFAULT)
    value = field.default if field.default_factory in missing else field.default_factory()
    if value in missing:
        return ""
    return repr(value.plain()) if isinstance(value, Choice) else repr(value)


@memoize(1024)
def _field_docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the texts that stand below a class's own fields; none where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):  # defined in a shell, or shipped without its source
        return {}
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for pair in itertools.pairwise(body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


class Documentation:
    """A class's docstring with its parameters, put together when ``help`` asks for it."""

    def __init__(self, text: str):
        self.text = text

    def __get__(self, instance: object, owner: type[Any]) -> str:
        if "__match_args__" not in owner.__dict__ and not issubclass(
            owner, msgspec.Struct
        ):  # it is only being made
            return self.text
        listed = "\n".join(map(str, parameters(owner)))
        own = inspect.cleandoc(self.text)
        return f"{own}\n\nParameters\n----------\n{listed}" if listed else own


Class = TypeVar("Class", bound=type[Any])


def documented(cls: Class) -> Class:
    """Let a class's docstring list its fields as parameters: with what they may be, their defaults and meanings."""
    text = cls.__dict__.get("__doc__")
    if isinstance(text, str):
        cls.__doc__ = Documentation(text)  # type: ignore[assignment]
    return cls
