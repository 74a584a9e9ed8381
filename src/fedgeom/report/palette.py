"""Colours that can be told apart with any kind of colour vision."""

from __future__ import annotations

# Okabe and Ito's colours without yellow and black, and Tol's muted scheme with one orange: both are made for
# all kinds of colour vision.
_FEW = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_MANY = (
    "#332288",
    "#ddcc77",
    "#117733",
    "#cc6677",
    "#88ccee",
    "#882255",
    "#44aa99",
    "#999933",
    "#aa4499",
    "#ee8833",
)

INK = "#22262b"
FAINT = "#c9ced6"
TERMINAL = {"bar.complete": _FEW[0], "bar.finished": _FEW[2], "bar.pulse": _FEW[5], "progress.elapsed": "dim"}
"""How progress looks on a terminal: in the colours of pictures and pages."""


def colours(n: int) -> list[str]:
    """Return n colours; beyond ten they come round again, darker, and numbers have to tell them apart.

    >>> len(set(colours(19)))
    19
    """
    if n <= len(_FEW):
        return list(_FEW[:n])
    return [_darker(_MANY[i % len(_MANY)], 0.62 ** (i // len(_MANY))) for i in range(n)]


def rgb(colour: str) -> tuple[float, float, float]:
    """Return the red, green and blue shares of a colour such as "#ffa90e"."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _darker(colour: str, by: float) -> str:
    return "#" + "".join(f"{round(255 * share * by):02x}" for share in rgb(colour))


def on_dark(colour: str) -> str:
    """Return a colour as it is drawn on a dark page: nearer to white, the darker it is.

    >>> on_dark("#332288"), on_dark("#ffffff")
    ('#9187bf', '#ffffff')
    """
    shares = rgb(colour)
    bright = 0.2126 * shares[0] + 0.7152 * shares[1] + 0.0722 * shares[2]
    white = 0.6 * max(0.0, 1.0 - bright / 0.75)
    return "#" + "".join(f"{round(255 * (share + white * (1.0 - share))):02x}" for share in shares)
