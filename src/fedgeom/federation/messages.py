"""What travels: closed, versioned, bounded structs in msgpack.

A message is one of a fixed set of types, found by its short ``kind`` in a table of what the receiver
understands. Unknown kinds, unknown fields, wrong types and oversized arrays are refused; nothing on
the wire names a class or runs code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bits, Words
from fedgeom.errors import CONTROL, DecodeError

LARGE = 1 << 20
"""Vectors of so many bytes are large; smaller ones are copied, which costs nothing to speak of."""
ROOM = 1 << 12
"""How many bytes are left before and behind a large vector: frames have some hundred around it."""
_ALIGNED = 64

Buffer = bytes | memoryview

_ROOMY: WeakValueDictionary[int, Bits] = WeakValueDictionary()
"""Buffers with a vector in the middle and room around it that is not used yet, by their identity."""


def roomy_words(count: int) -> Words:
    """Return a vector of so many words, not yet set; a large one has room around it."""
    size = 8 * count
    if size < LARGE:
        return np.empty(count, np.uint64)
    owner = np.empty(size + 2 * ROOM, np.uint8)
    _ROOMY[id(owner)] = owner
    return owner[ROOM : ROOM + size].view(np.uint64)


def lengthened(vector: Words, tail: Words) -> Words:
    """Return a vector with some words more behind it: in its room, where it has any; else a copy."""
    owner = _owner(vector)
    end = ROOM + vector.nbytes + tail.nbytes
    if owner is None or end > len(owner):
        return np.concatenate([vector, tail])
    longer = owner[ROOM:end].view(np.uint64)
    longer[len(vector) :] = tail
    return longer


def put_together(parts: Sequence[Buffer]) -> Buffer:
    """Return parts of a message one after the other; around a vector that has room for the others, without a copy."""
    size = sum(map(len, parts))
    if size < LARGE:
        return b"".join(parts)
    at = max(range(len(parts)), key=lambda part: len(parts[part]))
    before = b"".join(parts[:at])
    largest = parts[at]
    behind = b"".join(parts[at + 1 :])
    owner = _owner(largest.obj) if isinstance(largest, memoryview) else None
    start = ROOM
    end = start + len(largest)
    if owner is not None and len(before) <= ROOM and end + len(behind) <= len(owner):
        del _ROOMY[id(owner)]
    else:
        # Memory of numpy's, which comes in large pages; the vector in it begins where vectors like to.
        start = len(before) + -len(before) % _ALIGNED
        owner = np.empty(size + _ALIGNED, np.uint8)
        end = start + len(largest)
        owner[start:end] = np.frombuffer(largest, np.uint8)
    owner[start - len(before) : start] = np.frombuffer(before, np.uint8)
    owner[end : end + len(behind)] = np.frombuffer(behind, np.uint8)
    return owner[start - len(before) : end + len(behind)].data.toreadonly()


def _owner(vector: Any) -> Bits | None:
    """Return the buffer in which a vector stands, whole, with room around it; None elsewhere."""
    if not isinstance(vector, np.ndarray) or vector.base is None:
        return None
    roomy = _ROOMY.get(id(vector.base))
    if roomy is None or roomy is not vector.base:
        return None
    start = vector.__array_interface__["data"][0] - roomy.__array_interface__["data"][0]
    whole = start == ROOM and vector.flags.c_contiguous and vector.nbytes >= len(roomy) - 2 * ROOM
    return roomy if whole else None


VERSION = 3
"""The protocol's version; both ends must agree. It also stands for how masks, tags and keys are made, which no message
says: where two ends made them differently, a sum would be noise."""

LARGEST_MESSAGE = 256 * 2**20
"""No message, of whatever kind, may be larger than this many bytes."""

DTYPES = {"u2": "<u2", "u8": "<u8", "i8": "<i8", "f8": "<f8", "u4": "<u4", "i4": "<i4", "f4": "<f4", "u1": "|u1"}
_SIZES = {name: np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=rf"\A[^{CONTROL}]*\Z")]
"""A name of a site, a question, a method, a class: it may be printed, and stand in a file's name."""
Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=100_000)]
LongNames = Annotated[
    tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...], msgspec.Meta(max_length=100_000)
]
"""Names of all sites, which come with many questions: whoever has such a field looks at the characters of all at once
(`check_characters`), which takes a tenth of the time of one after the other."""


def check_characters(*lists: tuple[str, ...]) -> None:
    """Raise `ValueError` where a name has a character that no name has."""
    text = "".join(["".join(names) for names in lists])
    if not text.isprintable() and re.search(f"[{CONTROL}]", text):  # whatever is printable has none
        raise ValueError("a name has control characters")


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """Return an array's bytes, row after row, without copying them where they stand so already."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.toreadonly()


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A numpy array as (dtype, shape, bytes), with an allow-list of dtypes."""

    dtype: str
    shape: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**40)], ...], msgspec.Meta(max_length=4)]
    data: memoryview
    """Of a message that came, a part of its bytes, which are not copied."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"arrays of dtype {self.dtype!r} are not allowed; allowed: {', '.join(DTYPES)}")
        size = _SIZES[self.dtype]
        for extent in self.shape:
            size *= extent
        if size != len(self.data):
            raise ValueError(f"an array of shape {self.shape} needs {size} bytes, {len(self.data)} came")
        if not size and max(self.shape) >= 2**20:
            raise ValueError(f"an empty array of shape {self.shape} came; numpy cannot hold all of these")

    @classmethod
    def of(cls, array: npt.ArrayLike, *, copy: bool = True) -> Array:
        """Pack a numpy array; without a copy, only one that nobody will change."""
        values = np.asarray(array)
        code = f"{values.dtype.kind}{values.dtype.itemsize}"
        if code not in DTYPES:
            raise TypeError(f"arrays of {values.dtype} do not travel; allowed: {', '.join(DTYPES)}")
        packed = bytes_of(np.asarray(values, dtype=DTYPES[code]))
        return cls(code, values.shape, memoryview(bytes(packed)) if copy else packed)

    def numpy(self) -> npt.NDArray[Any]:
        """Unpack to a writeable array in the machine's byte order."""
        return self.view().copy()

    def view(self) -> npt.NDArray[Any]:
        """Unpack to an array that can only be read, in the machine's byte order; nothing is copied where it fits."""
        array = np.frombuffer(self.data, DTYPES[self.dtype]).reshape(self.shape)
        found = array.astype(array.dtype.newbyteorder("="), copy=False)
        found.flags.writeable = False
        return found


class MessageMeta(msgspec.StructMeta):
    """Takes what a message says of itself from the head of its class; messages are frozen, and made by keywords.

    ``class SumGram(SumQuestion, kind="ridge.gram", checked=True)`` sets `kind` and `checked`, which the classes above
    it declare.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """Make the class; keywords that name no class variable are msgspec's own."""
        for word in [word for word in options if any(hasattr(base, word) for base in bases)]:
            namespace[word] = options.pop(word)
        if "kind" not in namespace:
            raise TypeError(f"message {name} must state its `kind`")
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **options})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, metaclass=MessageMeta, frozen=True, forbid_unknown_fields=True):
    """Any message; subclasses say their kind and, for the ledger, what they reveal to whom."""

    kind: ClassVar[str] = ""
    reveals: ClassVar[str] = "nothing"
    harmless: ClassVar[bool] = False
    """Whether an answer of this kind shows the coordinator no numbers of one site's data: keys, masked vectors,
    receipts. A site whose policy says ``secure_only`` sends no other."""


class Question(Message, kind="question"):
    """What the coordinator asks; ``answer`` is the only type it accepts back.

    ``answer_reveals``, where given, says for the ledger what the answer to this very question reveals.
    ``per_site_fields`` names fields that differ from site to site, with the blank that stands for them where all sites
    check that they were asked the same.
    """

    answer: ClassVar[type[Message]] = Message
    answer_reveals: ClassVar[str] = ""
    per_site_fields: ClassVar[Mapping[str, Any]] = {}
    between_sites: ClassVar[bool] = False
    """Whether it brings a site what other sites sealed for it: where a plan has such a question, every two sites
    exchange secrets when they join. Otherwise, of many sites, each does so with some."""


class Refusal(Message, kind="refusal", harmless=True):
    """A site's answer when it will not or cannot answer."""

    reveals: ClassVar[str] = "the reason for the refusal"
    reason: Annotated[str, msgspec.Meta(max_length=2000)]


class Waiting(Message, kind="site.waiting", harmless=True):
    """A site's answer to an invitation while its steward has not approved the job: ask again later."""

    reveals: ClassVar[str] = "that its steward has not approved the job yet"


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The envelope: which protocol version, run, method and kind, and the message's own bytes."""

    version: int
    run: Key
    method: Name
    kind: Name
    body: memoryview
    """Of a frame that came, a part of its bytes, which are not copied."""


def encode(message: Message) -> bytes:
    """Turn a message into bytes."""
    return msgspec.msgpack.encode(message)


M = TypeVar("M", bound=Message)


def decode(body: bytes | memoryview, kind: type[M]) -> M:
    """Turn bytes into a message of the expected type, or raise `DecodeError`."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
        raise DecodeError(f"not a valid {kind.kind!r} message: {error}") from error


def pack(run: bytes, method: str, message: Message) -> bytes:
    """Put a message into its frame."""
    return b"".join(_frame(run, method, message))


def pack_large(run: bytes, method: str, message: Message) -> Buffer:
    """Put a message into its frame, the same bytes; a large one may stand where its vector stood, without a copy."""
    made = _frame(run, method, message)
    return made[0] if len(made) == 1 else put_together(made)


def _frame(run: bytes, method: str, message: Message) -> list[Buffer]:
    """Return a message in its frame, in pieces."""
    body = pieces(message)
    if len(body) == 1:
        return [pack_body(run, method, message.kind, body[0])]
    frame = Frame(VERSION, run, method, message.kind, memoryview(b""))
    return _parts(frame, {"body": [_bin_header(sum(map(len, body))), *body]})


def pieces(message: Message) -> list[Buffer]:
    """Return what `encode` makes of a message, in pieces: a large array is one by itself, which is not copied."""
    return _parts(message, {}) if _has_large(message) else [encode(message)]


def _has_large(value: Any) -> bool:
    """Return whether a value is a large array, or has one in a field, under a name, or in a field of a field."""
    if isinstance(value, Array):
        return len(value.data) >= LARGE
    if isinstance(value, dict):
        return len(value) < 2**16 and any(_has_large(one) for one in value.values() if isinstance(one, Array))
    if not isinstance(value, msgspec.Struct):
        return False
    written = value.__struct_config__
    if written.tag is not None or written.array_like or written.omit_defaults:  # no plain map of its fields
        return False
    return any(_has_large(getattr(value, name)) for name in value.__struct_fields__)


def _parts(value: Any, given: Mapping[str, list[Buffer]]) -> list[Buffer]:
    """Return the pieces of the encoding of a struct or dictionary: large arrays as they stand, and what is around them.

    ``given`` are fields that are encoded already.
    """
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = [(name, getattr(value, name)) for name in value.__struct_encode_fields__]
    encoded = msgspec.msgpack.encode
    parts: list[Buffer] = [_map_header(len(items))]
    for name, one in items:
        parts.append(encoded(name))
        if name in given:
            parts += given[name]
        elif isinstance(one, Array):
            parts += _parts(one, {"data": [_bin_header(len(one.data)), one.data]})
        elif _has_large(one):
            parts += _parts(one, {})
        else:
            parts.append(encoded(one))
    return parts


def _map_header(size: int) -> bytes:
    """Return what stands before a map of so many entries in msgpack."""
    return bytes([0x80 | size]) if size < 16 else b"\xde" + size.to_bytes(2, "big")


def _bin_header(size: int) -> bytes:
    """Return what stands before so many bytes in msgpack."""
    if size < 2**16:
        return b"\xc4" + size.to_bytes(1, "big") if size < 2**8 else b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def pack_body(run: bytes, method: str, kind: str, body: Buffer) -> bytes:
    """Put an encoded message into its frame."""
    return msgspec.msgpack.encode(Frame(VERSION, run, method, kind, memoryview(body)))


def unpack(data: Buffer, *, limit: int = LARGEST_MESSAGE) -> Frame:
    """Open a frame, refusing what is too large, malformed or of another protocol version."""
    if len(data) > limit:
        raise DecodeError(f"a message of {len(data):,} bytes came; the limit is {limit:,}")
    try:
        frame = msgspec.msgpack.decode(data, type=Frame)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as error:
        raise DecodeError(f"not a fedgeom frame: {error}") from error
    if frame.version != VERSION:
        raise DecodeError(f"the message speaks protocol version {frame.version}; this end speaks {VERSION}")
    return frame


def read_answer(frame: Frame, expected: type[M]) -> M | Refusal:
    """Decode an answer: the expected type, or a refusal."""
    known: Mapping[str, type[Message]] = {expected.kind: expected, Refusal.kind: Refusal}
    if frame.kind not in known:
        raise DecodeError(f"answered with {frame.kind!r} where {expected.kind!r} was asked for")
    return decode(frame.body, known[frame.kind])  # type: ignore[return-value]
