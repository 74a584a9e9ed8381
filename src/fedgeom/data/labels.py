"""Of what type labels are: methods learn from words, and give back what came, 0 and 1 as whole numbers.

A word is a label as text; a whole number that came as 2.0 is the word "2", so that sites with gaps in a column, where
pandas makes such numbers of whole ones, have the same words as others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

LabelType = Literal["text", "integer", "float", "bool"]
LABEL_TYPES: tuple[LabelType, ...] = get_args(LabelType)
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
"""A whole number as it is written; 007 and +7 are text."""
FLAGS = {"True": True, "False": False}


def label_type(labels: Iterable[Any]) -> LabelType:
    """Return the type of labels as they were given; None, NaN and "" are none.

    >>> label_type([0, 1, None]), label_type(["0", "1"]), label_type([0.0, float("nan")]), label_type([True])
    ('integer', 'text', 'float', 'bool')
    """
    kind = labels.dtype.kind if isinstance(labels, np.ndarray) else "O"
    if kind != "O":
        known: dict[str, LabelType] = {"b": "bool", "i": "integer", "u": "integer", "f": "float"}
        return known.get(kind, "text")
    given = [one for one in labels if one is not None and one == one and not (isinstance(one, str) and not one)]
    types: tuple[tuple[Any, LabelType], ...] = (
        ((bool, np.bool_), "bool"),
        ((int, np.integer), "integer"),
        ((int, float, np.integer, np.floating), "float"),
    )
    for wanted, named in types:
        if given and all(isinstance(one, wanted) for one in given):
            flags = named != "bool" and any(isinstance(one, bool | np.bool_) for one in given)
            return "text" if flags else named
    return "text"


def is_one_type(types: Iterable[LabelType]) -> bool:
    """Whether labels of these types can be the same words: whole numbers and numbers like 2.0 are."""
    return len({"integer" if one == "float" else one for one in types}) < 2


def joint_type(types: Iterable[LabelType]) -> LabelType:
    """Return the type of all sites' labels, from that of each; text where they differ.

    >>> joint_type(["integer", "float"]), joint_type(["float"]), joint_type(["integer", "text"])
    ('integer', 'float', 'text')
    """
    found = set(types)
    if not found or not is_one_type(found):
        return "text"
    return "integer" if "integer" in found else found.pop()


def type_of_words(words: Collection[str]) -> LabelType:
    """Return the type that words have where a file does not say it: whole numbers, true and false, or text.

    >>> type_of_words(["0", "1"]), type_of_words(["True", ""]), type_of_words(["01", "1"]), type_of_words([])
    ('integer', 'bool', 'text', 'text')
    """
    said = [word for word in words if word]
    if said and all(WHOLE.fullmatch(word) for word in said):
        return "integer"
    return "bool" if said and all(word in FLAGS for word in said) else "text"


def as_given(words: npt.ArrayLike, named: LabelType) -> npt.NDArray[Any]:
    """Return words as labels of a type; as they are where one of them is none, and "" stays where nothing was said.

    >>> as_given(["2", "3"], "float").tolist(), as_given(["2", ""], "integer").tolist()
    ([2.0, 3.0], [2, ''])
    >>> as_given(["b", "True"], "bool").tolist()
    ['b', 'True']
    """
    texts = np.asarray(words)
    if named == "text" or texts.dtype.kind not in "UO" or not texts.size:
        return texts
    known, at = np.unique(texts.astype(str), return_inverse=True)
    try:
        made = [_value(word, named) for word in known.tolist()]
    except ValueError:
        return texts
    found = np.empty(len(made), object)
    found[:] = made
    if "" not in made:
        found = found.astype({"integer": np.int64, "float": np.float64, "bool": np.bool_}[named])
    return found[at.reshape(texts.shape)]


def _value(word: str, named: LabelType) -> Any:
    if not word:
        return ""
    if named == "integer":
        if not WHOLE.fullmatch(word):
            raise ValueError(word)
        return int(word)
    if named == "float":
        return float(word)
    if word not in FLAGS:
        raise ValueError(word)
    return FLAGS[word]


def in_words(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels so that their text is their word: numbers like 2.0 as whole numbers; others as they are.

    >>> in_words(np.array([1.0, 2.0])).tolist(), in_words(np.array([1.0, float("nan")])).tolist()
    ([1, 2], [1, ''])
    """
    if labels.dtype.kind not in "fO" or label_type(labels) != "float":
        return labels
    values = labels.tolist()
    made = ["" if one is None or one == "" or one != one else _whole(one) for one in values]
    found = np.empty(len(made), object)
    found[:] = made
    return found.astype(np.int64) if made and all(isinstance(one, int) for one in made) else found


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
