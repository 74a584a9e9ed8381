"""Every error fedgeom raises on purpose.

A message says what was given, what is wanted and what to do; the class says whose turn it is to act.
"""

from __future__ import annotations

import re

CONTROL = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that no name has, as a regular expression has them: they rule terminals, end lines or turn the writing."""


def is_name(text: str) -> bool:
    """Say whether a text can be a name: one line of up to 200 characters, without control characters.

    >>> [is_name(text) for text in ("anna", "T-Zelle β", "anna\\n", "")]
    [True, True, False, False]
    """
    return re.fullmatch(f"[^{CONTROL}]{{1,200}}", text) is not None


def printable(text: str, *, lines: bool = False) -> str:
    """Return a text that came from elsewhere with control characters written out, so that it cannot rule a terminal.

    Signs that turn the direction of writing count among them: they make a text look like another. So do line ends,
    which would let a text pose as several, unless ``lines`` says that several are meant.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(char if char.isprintable() or (lines and char == "\n") else repr(char)[1:-1] for char in text)


class FedgeomError(Exception):
    """The common ancestor, for callers that catch everything of ours and nothing else."""


class InputError(FedgeomError, ValueError):
    """The caller's data or parameters cannot be used as they are."""


class DecodeError(FedgeomError, ValueError):
    """A code word or message does not decode to anything valid."""


class ProtocolError(FedgeomError, RuntimeError):
    """A party did not follow the protocol; nothing was revealed to it."""


class ContractError(TypeError):
    """A method's own code breaks the contract, whatever the data are: its author must act, not the user.

    Not one of ours that callers would catch: a handler that returns the wrong thing must be seen while it is written.
    """


class TooFewSitesError(ProtocolError):
    """Fewer sites answered than the method or a site's policy needs."""
