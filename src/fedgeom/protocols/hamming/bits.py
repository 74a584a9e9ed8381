"""What the variants have in common: packed bits, letters, shares and how the coordinator opens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bits
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.plan import bytes_size

Share = npt.NDArray[np.uint16]
Distances = npt.NDArray[np.int64]

MODULUS = 2**16
"""Shares live modulo this number. It exceeds the largest distance, L, so that 0 and L stay apart."""

LONGEST = MODULUS - 1
"""The largest L."""

LIMB = 16
"""Bits of one share."""


@dataclass(frozen=True, eq=False)
class PackedBits:
    """Bit vectors of one length, eight bits to the byte (`numpy.packbits`), one row for each point."""

    rows: Bits
    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length <= LONGEST:
            raise InputError(f"vectors of {self.length} bits were given; wanted 1 … {LONGEST}")
        rows = self.rows
        width = -(-self.length // 8)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width or not len(rows):
            raise InputError(
                f"packed bits of {rows.dtype} and shape {rows.shape} were given; for vectors of {self.length} "
                f"bits at least one row of {width} uint8 is wanted"
            )
        spare = 8 * width - self.length
        if spare and (rows[:, -1] & ((1 << spare) - 1)).any():
            raise InputError(f"the last {spare} bits of each row are beyond the {self.length} bits and must be 0")

    @classmethod
    def of(cls, bits: npt.ArrayLike) -> PackedBits:
        """Pack a matrix of zeros and ones (or of truth values), one vector in each row."""
        matrix = np.asarray(bits)
        if matrix.ndim != 2 or not ((matrix == 0) | (matrix == 1)).all():
            raise InputError("a matrix of zeros and ones is wanted, one vector in each row")
        return cls(np.packbits(matrix.astype(np.uint8), axis=1), matrix.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def unpacked(self) -> Bits:
        """Return the bits as a matrix of zeros and ones."""
        return np.unpackbits(self.rows, axis=1, count=self.length)

    def weights(self) -> Share:
        """Return how many ones each vector has."""
        ones: Share = np.bitwise_count(self.rows).sum(axis=1, dtype=np.uint16)
        return ones


class PairTurn(NamedTuple):
    """What a site has after its turn."""

    state: bytes | None
    """Secret, for the site's own memory until its next turn; None when there is none."""
    letter: bytes | None
    """For the other site; None when it needs no more."""
    share: Share | None
    """For the coordinator, (asker's points, helper's points); None while the conversation goes on."""


class Variant(Protocol):
    """One way to compute the distances: an asker and a helper take turns, the asker first.

    Each turn may find a new process: all a site remembers is the ``state`` of its last turn. A state
    is good for one turn, and must not be used with two different letters. ``theirs`` is the number
    of the other site's points, which both know beforehand, as they know the length of the vectors.
    """

    name: ClassVar[str]
    passes: ClassVar[int]
    """How many letters are written in all."""

    @property
    def group(self) -> int:
        """How many of the asker's points share carries (see `open_shares`)."""

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has: known before any is written."""

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Take the asker's first turn."""

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Take one of the helper's turns."""

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """Take one of the asker's later turns."""


@dataclass(frozen=True, eq=False)
class PairTranscript:
    """Both shares of a conversation held in one process, and its letters."""

    asker: Share
    helper: Share
    letters: tuple[bytes, ...]


def converse(variant: Variant, asker: PackedBits, helper: PackedBits) -> PairTranscript:
    """Play both sites in one process, for tests and measurements."""
    step = variant.begin(asker, len(helper))
    memory: bytes | None = None
    kept = step.state
    letter = step.letter
    letters = []
    shares: dict[str, Share] = {}
    while letter is not None:
        letters.append(letter)
        if len(letters) % 2:
            memory, letter, share = variant.step_b(helper, len(asker), memory, letter)
        else:
            kept, letter, share = variant.step_a(asker, len(helper), kept or b"", letter)
        if share is not None:
            shares["helper" if len(letters) % 2 else "asker"] = share
    return PairTranscript(shares["asker"], shares["helper"], tuple(letters))


def open_shares(asker: Share, helper: Share, length: int, group: int = 1) -> Distances:
    """Return the distances, the asker's share less the helper's: the coordinator's only step.

    Each run of ``group`` of the asker's points is one long number to the base 2^16, lowest first, and
    the subtraction carries from one to the next. For ``group`` 1 this is (T − R) mod 2^16.
    """
    for share in (asker, helper):
        if share.dtype != np.uint16 or share.ndim != 2 or share.shape != asker.shape:
            raise ProtocolError(
                f"shares of {asker.dtype} {asker.shape} and {helper.dtype} {helper.shape} came; two uint16 "
                "matrices of one shape are wanted"
            )
    distances = np.empty(asker.shape, np.int64)
    borrow = np.zeros((-(-len(asker) // group), asker.shape[1]), np.int64)
    for at in range(min(group, len(asker))):
        own = asker[at::group].astype(np.int64)
        gap = own - helper[at::group] - borrow[: len(own)]
        borrow = (gap < 0).astype(np.int64)
        distances[at::group] = gap % MODULUS
    if distances.size and distances.max() > length:
        raise ProtocolError(f"the shares do not belong together: a distance of {distances.max()} > {length}")
    return distances


def plain_distances(one: PackedBits, other: PackedBits) -> Distances:
    """Return all Hamming distances between two sites' vectors, in the clear."""
    if one.length != other.length:
        raise InputError(f"vectors of {one.length} and of {other.length} bits have no distance")
    found = np.empty((len(one), len(other)), np.int64)
    for at, row in enumerate(one.rows):
        found[at] = np.bitwise_count(row ^ other.rows).sum(axis=1, dtype=np.int64)
    return found


class OpenDistances:
    """How rows are compared in a plain run: the asker's bits travel as they are. No terms can name it.

    The helper's share is the negative of the distances, the asker's is zero.
    """

    name: ClassVar[str] = "open"
    passes: ClassVar[int] = 2
    group: int = 1

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has."""
        return asker * -(-length // 8), 0

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Send the bits (asker)."""
        return PairTurn(b"", mine.rows.tobytes(), None)

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Compare (helper)."""
        rows = np.frombuffer(letter, np.uint8).reshape(theirs, -1)
        found = plain_distances(PackedBits(rows, mine.length), mine)
        return PairTurn(None, b"", (-found).astype(np.uint16))

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """End (asker)."""
        return PairTurn(None, None, np.zeros((len(mine), theirs), np.uint16))


class PairMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What one site writes to another (or to itself, as its state): a tag and byte strings."""


Read = TypeVar("Read", bound=PairMessage)


def write(letter: PairMessage) -> bytes:
    """Turn a letter into bytes."""
    return msgspec.msgpack.encode(letter)


def letter_size(kind: type[PairMessage], **sizes: int) -> int:
    """Return how many bytes a letter has whose fields have these sizes."""
    empty = write(kind(**dict.fromkeys(sizes, b"")))
    return len(empty) + sum(bytes_size(size) - bytes_size(0) for size in sizes.values())


def read(data: bytes, kind: type[Read], **sizes: int) -> Read:
    """Read a letter whose every field must have exactly the given size, or raise `ProtocolError`.

    The sizes follow from what the reader knows, never from the letter.
    """
    most = sum(sizes.values()) + 200
    if len(data) > most:
        raise ProtocolError(f"a letter of {len(data)} bytes came where at most {most} are expected")
    try:
        letter = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"not a valid {kind.__name__} letter: {error}") from error
    for name, size in sizes.items():
        value: Any = getattr(letter, name)
        if len(value) != size:
            raise ProtocolError(f"{name!r} of a {kind.__name__} letter has {len(value)} bytes; {size} wanted")
    return letter


def recall(state: bytes, kind: Any) -> Any:
    """Read a site's own state, one of the given structs, or raise `ProtocolError`."""
    try:
        return msgspec.msgpack.decode(state, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"the letter came at another turn than this site's memory says: {error}") from error
