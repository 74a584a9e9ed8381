"""Who a site is (Ed25519 and ML-DSA-65), which secrets two sites share (X25519 and ML-KEM-768), and sealed messages.

An identity signs the keys of a run, and who a node is, by both algorithms (`BY_BOTH`): whoever forges one signature has
to forge the other, too. Statements about single sums are signed by Ed25519 alone: they are made within a run between
sites whose keys both have signed, there are many, and a signature of ML-DSA has 3,309 bytes. An identity from before
has an Ed25519 key alone, and so has its entry in a roster; where the entry has both keys, both signatures are demanded.

Two sites agree by both, so that what is recorded today stays closed to a quantum computer of tomorrow, and a flaw of
the younger algorithm opens nothing (a hybrid as X-Wing and TLS's X25519MLKEM768 are):

- by Diffie–Hellman, x = X25519(own secret, the other's public key);
- by two encapsulations, one from each side: the sites a and b send each other ciphertexts for the public keys which
  they showed, of the secrets s_ab and s_ba.

``hybrid`` is HKDF's extraction with the salt SHA-256(label, run, names, public keys of both kinds, both ciphertexts)
over x ‖ s_ab ‖ s_ba, each of 32 bytes. Whoever lacks one of the three has nothing, and whoever was shown another key,
ciphertext or run has another key. The public keys are signed. Ciphertexts need no signature: who puts one of his own in
place of that of b lacks s_ab, which only b can open, so both sides prove by their letters that they are who they said.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgeom.errors import InputError, ProtocolError
from fedgeom.memo import Store, clear, memoize
from fedgeom.storage import write_file

KEY_BYTES = 32

_PREFIXES = tuple(length.to_bytes(8, "big") for length in range(1 << 12))
"""What stands before parts of these lengths, as nearly all are, when they are hashed."""


def with_length(part: bytes | memoryview) -> bytes:
    """Return a byte string with its length before it."""
    return len(part).to_bytes(8, "big") + part


def fingerprint(*parts: bytes | memoryview) -> bytes:
    """Hash byte strings so that no two different lists of parts collide (each is length-prefixed)."""
    short: list[bytes | memoryview] = []
    try:
        for part in parts:
            short += (_PREFIXES[len(part)], part)
    except IndexError:
        return _hash_long(parts)
    return hashlib.sha256(b"".join(short)).digest()  # one call costs a third of two for each part


def _hash_long(parts: Sequence[bytes | memoryview]) -> bytes:
    """Do the same without a copy."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


@memoize(64)  # the same lists at all sites of a process
def hash_names(names: tuple[str, ...]) -> bytes:
    """Hash a list of names."""
    return fingerprint(*(name.encode() for name in names))


BY_BOTH = frozenset({"keys", "introduction"})
"""The purposes that an identity signs for with both of its keys."""
ED25519_BYTES = 64
MLDSA_BYTES = 3309
MLDSA_PUBLIC_BYTES = 1952
PUBLIC_BYTES = KEY_BYTES + MLDSA_PUBLIC_BYTES
"""The public half of an identity: of Ed25519, then of ML-DSA-65."""
SIGNATURE_BYTES = ED25519_BYTES + MLDSA_BYTES
"""The signature for a purpose of `BY_BOTH`: by Ed25519, then by ML-DSA-65."""
_LACKS = (
    "the installed cryptography has no {}; wanted one that is built with OpenSSL 3.5 or newer: "
    "pip install 'cryptography>=50', which brings its own"
)


@dataclass(frozen=True)
class Identity:
    """A site's long-lived signing keys: 32 secret bytes of Ed25519, and where it has it 32 of ML-DSA-65."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) not in (KEY_BYTES, 2 * KEY_BYTES):
            raise InputError(
                f"an identity of {len(self.secret)} bytes given; wanted {2 * KEY_BYTES} (Ed25519 and ML-DSA-65), or "
                f"{KEY_BYTES} (Ed25519 alone, from before)"
            )

    @classmethod
    def generate(cls) -> Identity:
        """Make a new identity, with both keys, from the operating system's randomness."""
        made = cls(os.urandom(2 * KEY_BYTES))
        _mldsa(made.secret)
        return made

    @property
    def public(self) -> bytes:
        """The half that goes into rosters."""
        first = _signing(self.secret).public_key().public_bytes_raw()
        return first + _mldsa(self.secret).public_key().public_bytes_raw() if self.has_both else first

    @property
    def has_both(self) -> bool:
        """Whether it signs by ML-DSA, too."""
        return len(self.secret) > KEY_BYTES

    def sign(self, purpose: str, *parts: bytes) -> bytes:
        """Sign a statement; ``purpose`` keeps a signature for one use from serving another."""
        statement = fingerprint(b"fedgeom/1 " + purpose.encode(), *parts)
        first = _signing(self.secret).sign(statement)
        return first + _mldsa(self.secret).sign(statement) if self.has_both and purpose in BY_BOTH else first

    def __repr__(self) -> str:
        return f"Identity({describe_identity(self.public)[:16]}…)"


def describe_identity(public: bytes) -> str:
    """Return 64 hexadecimal digits that people compare: a hash of both public keys, or the key where it is one."""
    if len(public) <= KEY_BYTES:
        return f"{public.hex()} (Ed25519 alone: not post-quantum)"
    return fingerprint(b"fedgeom/3 identity", public).hex()


@memoize(1 << 11)  # reading a key costs as much as signing; sites in one process each have one
def _signing(secret: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(secret[:KEY_BYTES])


@memoize(1 << 11)
def _mldsa(secret: bytes) -> MLDSA65PrivateKey:
    try:
        return MLDSA65PrivateKey.from_seed_bytes(secret[KEY_BYTES:])
    except UnsupportedAlgorithm as error:
        raise InputError(_LACKS.format("ML-DSA-65, by which sites sign")) from error


def verify(public: bytes, signature: bytes, purpose: str, *parts: bytes, signer: str = "the signer") -> None:
    """Raise `ProtocolError` unless ``signature`` is ``signer``'s over this statement."""
    verify_each({signer: public}, {signer: signature}, purpose, *parts)


def verify_each(roster: Mapping[str, bytes], signatures: Mapping[str, bytes], purpose: str, *parts: bytes) -> None:
    """Raise `ProtocolError` unless all signatures, by signer, are theirs over one and the same statement.

    For a purpose of `BY_BOTH` a signature has both parts exactly where the roster has both keys.
    """
    statement = fingerprint(b"fedgeom/1 " + purpose.encode(), *parts)
    for signer, signature in signatures.items():
        public = roster.get(signer, b"")
        both = purpose in BY_BOTH and len(public) > KEY_BYTES
        wanted = SIGNATURE_BYTES if both else ED25519_BYTES
        if len(signature) != wanted:
            needs = "Ed25519 and ML-DSA-65" if both else "Ed25519"
            raise ProtocolError(
                f"the signature of {signer!r} for {purpose!r} is not valid: it has {len(signature):,} bytes, and "
                f"by the roster it is one of {needs} with {wanted:,}"
            )
        try:
            _verify(public[:KEY_BYTES], signature[:ED25519_BYTES], statement)
            if both:
                _verify_mldsa(public[KEY_BYTES:], signature[ED25519_BYTES:], statement)
        except InputError:  # nothing is wrong with the signature: it cannot be checked here
            raise
        except (InvalidSignature, ValueError) as error:
            raise ProtocolError(f"the signature of {signer!r} for {purpose!r} is not valid") from error


@memoize(1 << 14)  # failures are not kept; sites in one process check each signature once
def _verify(public: bytes, signature: bytes, statement: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)


@memoize(1 << 11)  # likewise
def _verify_mldsa(public: bytes, signature: bytes, statement: bytes) -> None:
    try:
        MLDSA65PublicKey.from_public_bytes(public).verify(signature, statement)
    except UnsupportedAlgorithm as error:
        raise InputError(_LACKS.format("ML-DSA-65, by which sites of the roster sign")) from error


class Roster(Mapping[str, bytes]):
    """The identities a site is willing to work with, by name; the file that sites pin."""

    def __init__(self, identities: Mapping[str, bytes]):
        for name, public in identities.items():
            if len(public) not in (KEY_BYTES, PUBLIC_BYTES):
                raise InputError(
                    f"roster entry {name!r} has a key of {len(public)} bytes; wanted {PUBLIC_BYTES:,} (Ed25519 and "
                    f"ML-DSA-65), or {KEY_BYTES} (Ed25519 alone)"
                )
        if len({public[:KEY_BYTES] for public in identities.values()}) < len(identities):
            raise InputError("two roster entries have the same key; each site needs an identity of its own")
        self._identities = dict(sorted(identities.items()))
        self.entries = tuple(self._identities.items())
        """All names with their identities."""
        self.known = frozenset(self._identities)
        """All names."""
        self.classical = tuple(name for name, public in self.entries if len(public) == KEY_BYTES)
        """The sites whose entries have Ed25519 alone, from before."""

    def __getitem__(self, name: str) -> bytes:
        return self._identities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._identities)

    def __len__(self) -> int:
        return len(self._identities)

    def save(self, path: str | Path) -> None:
        """Write the roster as JSON: for each name its keys, and what people compare (`describe_identity`)."""
        text = msgspec.json.format(msgspec.json.encode({name: _written(key) for name, key in self.entries}))
        write_file(path, text + b"\n", private=True)

    @classmethod
    def load(cls, path: str | Path) -> Roster:
        """Read a roster written by `save`; one from before has a key of 64 digits for each name."""
        try:
            entries = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, str | RosterEntry])
            return cls({name: _read_entry(name, entry) for name, entry in entries.items()})
        except (msgspec.DecodeError, ValueError) as error:
            raise InputError(
                f"{path} is not a roster ({error}); wanted JSON of site name to its keys, as the coordinator sends it"
            ) from error


class RosterEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """An identity as a roster has it, in hexadecimal digits."""

    identity: str
    """What people compare."""
    ed25519: str
    ml_dsa_65: str


def _written(public: bytes) -> str | RosterEntry:
    if len(public) == KEY_BYTES:
        return public.hex()
    return RosterEntry(describe_identity(public), public[:KEY_BYTES].hex(), public[KEY_BYTES:].hex())


def _read_entry(name: str, entry: str | RosterEntry) -> bytes:
    if isinstance(entry, str):
        return bytes.fromhex(entry)
    public = bytes.fromhex(entry.ed25519) + bytes.fromhex(entry.ml_dsa_65)
    if describe_identity(public) != entry.identity:
        raise InputError(f"the keys of {name!r} are not those of the identity that is listed with them")
    return public


def new_exchange_secret() -> bytes:
    """Make the private half of a Diffie–Hellman key."""
    made = X25519PrivateKey.generate()
    _note_made_here(made.public_key().public_bytes_raw())
    return made.private_bytes_raw()


def exchange_public(secret: bytes) -> bytes:
    """Return the public half of a Diffie–Hellman key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


@memoize(4)  # a site agrees with all its peers by one key; reading it costs as much as an agreement
def _private(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


@memoize(4)
def _public(secret: bytes) -> bytes:
    return exchange_public(secret)


@memoize(1 << 10)  # all its peers in a process agree with a site; reading a key takes a while
def _peer(public: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(public)


_NO_SALT = bytes(32)


_MOST_PAIRS = 1 << 18
_AGREEMENTS = Store[bytes](_MOST_PAIRS)
"""What pairs of keys have agreed on, extracted, by both public halves, where this process made both keys.

Two sites agree to seal a letter and to open one, and from the first follow their keys of all sums. A process that
simulates both ends of a pair has the same agreement four times; nobody finds one here who does not hold a secret half
of the pair. A site in a process of its own keeps nothing here: its peers' keys were made elsewhere.
"""
_MADE_HERE: dict[bytes, None] = {}
"""Public halves that were made in this process, in their order."""


def _note_made_here(public: bytes) -> None:
    if len(_MADE_HERE) >= _MOST_PAIRS // 2:
        del _MADE_HERE[next(iter(_MADE_HERE))]
    _MADE_HERE[public] = None


def forget_agreements() -> None:
    """Forget what simulated sites have agreed on in this process; who needs it again works it out again."""
    _AGREEMENTS.clear()
    _ENCAPSULATED.clear()
    _MADE_HERE.clear()
    clear(_private, _public, _peer, _kem_private, _kem_peer)


def agreement(secret: bytes, peer_public: bytes, *, owner: str = "a peer") -> bytes:
    """Return what two sites agree on by Diffie–Hellman, extracted as by HKDF (RFC 5869), for `hybrid`."""

    def agree() -> bytes:
        return hmac.digest(_NO_SALT, _private(secret).exchange(_peer(peer_public)), "sha256")

    try:
        if peer_public not in _MADE_HERE:
            return agree()
        own = _public(secret)
        return _AGREEMENTS.find((min(own, peer_public), max(own, peer_public)), agree)
    except ValueError as error:  # a point of small order, or not 32 bytes
        raise ProtocolError(f"the public key of {owner!r} is not a valid X25519 key") from error


KEM_SECRET_BYTES = 64
"""The two seeds of FIPS 203 from which the private key follows."""
KEM_PUBLIC_BYTES = 1184
CIPHERTEXT_BYTES = 1088

_ENCAPSULATED = Store[bytes](_MOST_PAIRS)
"""The secrets of ciphertexts for keys that this process made, by a hash of key and ciphertext."""


@dataclass(frozen=True)
class Encapsulated:
    """A secret for the holder of a public key, and the ciphertext that tells it to nobody else."""

    secret: bytes
    ciphertext: bytes


def new_kem_secret() -> bytes:
    """Make the private half of an ML-KEM-768 key."""
    secret = os.urandom(KEM_SECRET_BYTES)
    _note_made_here(kem_public(secret))
    return secret


def kem_public(secret: bytes) -> bytes:
    """Return the public half of an ML-KEM-768 key."""
    return _kem_private(secret).public_key().public_bytes_raw()


@memoize(4)  # to make a key of its seed costs as much as three decapsulations
def _kem_private(secret: bytes) -> MLKEM768PrivateKey:
    try:
        return MLKEM768PrivateKey.from_seed_bytes(secret)
    except UnsupportedAlgorithm as error:
        raise InputError(_LACKS.format("ML-KEM-768, by which sites agree on keys")) from error


@memoize(1 << 10)  # all its peers in a process encapsulate for a site; reading a key costs as much
def _kem_peer(public: bytes) -> MLKEM768PublicKey:
    return MLKEM768PublicKey.from_public_bytes(public)


def encapsulate(public: bytes, *, owner: str = "a peer") -> Encapsulated:
    """Make a secret that the ``owner`` of a public key opens, and nobody else."""
    try:
        secret, ciphertext = _kem_peer(public).encapsulate()
    except ValueError as error:
        raise ProtocolError(f"the public key of {owner!r} is not a valid ML-KEM-768 key") from error
    if public in _MADE_HERE:
        _ENCAPSULATED.find(fingerprint(public, ciphertext), lambda: secret)
    return Encapsulated(secret, ciphertext)


def decapsulate(secret: bytes, public: bytes, ciphertext: bytes, *, sender: str = "a peer") -> bytes:
    """Open the ciphertext of a ``sender`` for one's key, of which both halves are given.

    A ciphertext that was changed opens to something else (FIPS 203, implicit rejection): the letters that are sealed
    with it do not open.
    """

    def open_it() -> bytes:
        return _kem_private(secret).decapsulate(ciphertext)

    try:
        made_here = public in _MADE_HERE
        return _ENCAPSULATED.find(fingerprint(public, ciphertext), open_it) if made_here else open_it()
    except ValueError as error:
        raise ProtocolError(f"the ciphertext of {sender!r} is not a valid one of ML-KEM-768") from error


def hybrid(agreed: bytes, first: bytes, second: bytes, *transcript: bytes) -> bytes:
    """Return what two sites agree on by Diffie–Hellman and two encapsulated secrets, bound to what they were shown.

    ``first`` is the secret that the first of the two sites, by name, encapsulated, ``second`` that of the other.
    """
    if not len(agreed) == len(first) == len(second) == KEY_BYTES:
        raise InputError(
            f"secrets of {len(agreed)}, {len(first)} and {len(second)} bytes given; wanted {KEY_BYTES}"
        )
    return hmac.digest(fingerprint(b"fedgeom/3 hybrid", *transcript), agreed + first + second, "sha256")


def derive(agreed: bytes, *context: bytes) -> bytes:
    """Derive the 256-bit key that two sites share for one purpose (HKDF's expansion, with SHA-256).

    Both sides get the same key when they give the same context; a different context (run, direction) gives an
    independent key.
    """
    return derive_for(agreed, fingerprint(*context))


def derive_for(agreed: bytes, context: bytes) -> bytes:
    """Derive the key that `derive` does, from the `fingerprint` of the context."""
    return hmac.digest(agreed, context + b"\x01", "sha256")


NONCE_BYTES = 12
SEAL_BYTES = NONCE_BYTES + 16
"""How much longer a sealed text is: its nonce, and the tag that authenticates it."""


def seal(key: bytes, text: bytes, envelope: bytes, *, repeatable: bool = False) -> bytes:
    """Encrypt ``text`` and bind it to ``envelope`` (run, sender, recipient), which stays readable.

    A ``repeatable`` letter is the same each time it is sealed, so that a long one need not be kept to be sent again:
    its nonce is a hash of key, envelope and text, and another text gets another one.
    """
    nonce = fingerprint(b"nonce", key, envelope, text)[:NONCE_BYTES] if repeatable else os.urandom(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, envelope)


def unseal(key: bytes, letter: bytes, envelope: bytes, *, sender: str = "the sender") -> bytes:
    """Decrypt a letter; raise `ProtocolError` when it was changed, misdelivered or not ``sender``'s."""
    try:
        return ChaCha20Poly1305(key).decrypt(letter[:NONCE_BYTES], letter[NONCE_BYTES:], envelope)
    except (InvalidTag, ValueError) as error:
        raise ProtocolError(f"the letter from {sender!r} cannot be opened: changed or misdelivered") from error
