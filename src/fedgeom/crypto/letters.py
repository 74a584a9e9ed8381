"""Letters from one site to another that the coordinator carries but cannot read or change."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError

NONCE_BYTES = 12


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
