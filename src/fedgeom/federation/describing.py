"""What a method's settings are called, may be and mean, read from the fields and the docstrings below them.

The docstrings of fields are comments to Python, so they are read from the source, when somebody asks.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from dataclasses import dataclass
from typing import Any, get_type_hints

from fedgeom.federation.settings import Choice, wanted


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
        if dataclasses.is_dataclass(base):
            meanings |= _field_docstrings(base)
    return tuple(
        Parameter(field.name, wanted(hints[field.name]), _default(field), meanings.get(field.name, ""))
        for field in dataclasses.fields(cls)
        if field.init
    )


def _default(field: dataclasses.Field[Any]) -> str:
    """Write a default as one would write it in Python."""
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return ""
    return repr(value.plain()) if isinstance(value, Choice) else repr(value)


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
        if "__match_args__" not in owner.__dict__:  # it is only being made, which ends with these
            return self.text
        listed = "\n".join(map(str, parameters(owner)))
        own = inspect.cleandoc(self.text)
        return f"{own}\n\nParameters\n----------\n{listed}" if listed else own
