"""Every error fedgeom raises on purpose.

A message says what was given, what is wanted and what to do; the class says whose turn it is to act.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text that came from elsewhere with control characters written out, so that it cannot rule a terminal.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


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
