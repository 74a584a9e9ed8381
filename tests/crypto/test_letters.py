"""Sealed letters: published vectors, and whatever is changed is noticed."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgeom.crypto.keys import NONCE_BYTES, seal, unseal
from fedgeom.errors import ProtocolError

raw = bytes.fromhex

# RFC 8439, section 2.8.2
AEAD_KEY = bytes(range(0x80, 0xA0))
AEAD_NONCE = raw("070000004041424344454647")
AEAD_ENVELOPE = raw("50515253c0c1c2c3c4c5c6c7")
AEAD_TEXT = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    b"sunscreen would be it."
)
AEAD_SEALED = raw(
    "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
    "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
    "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
    "3ff4def08e4b7a9de576d26586cec64b6116"
    "1ae10b594f09e26a7e902ecbd0600691"
)


def test_letters_open_as_in_rfc_8439() -> None:
    assert unseal(AEAD_KEY, AEAD_NONCE + AEAD_SEALED, AEAD_ENVELOPE) == AEAD_TEXT


def test_a_repeatable_letter_is_the_same_each_time_and_another_text_has_another_nonce() -> None:
    one, again = (seal(AEAD_KEY, AEAD_TEXT, AEAD_ENVELOPE, repeatable=True) for _ in range(2))
    assert one == again
    assert unseal(AEAD_KEY, one, AEAD_ENVELOPE) == AEAD_TEXT
    others = (
        seal(AEAD_KEY, AEAD_TEXT + b"!", AEAD_ENVELOPE, repeatable=True),
        seal(AEAD_KEY, AEAD_TEXT, AEAD_ENVELOPE + b"!", repeatable=True),
        seal(bytes(32), AEAD_TEXT, AEAD_ENVELOPE, repeatable=True),
        seal(AEAD_KEY, AEAD_TEXT, AEAD_ENVELOPE),
    )
    assert len({letter[:NONCE_BYTES] for letter in (one, *others)}) == 5


def test_a_sealed_letter_is_the_nonce_and_the_cipher_text() -> None:
    letter = seal(AEAD_KEY, AEAD_TEXT, AEAD_ENVELOPE)
    nonce, rest = letter[:NONCE_BYTES], letter[NONCE_BYTES:]
    assert ChaCha20Poly1305(AEAD_KEY).encrypt(nonce, AEAD_TEXT, AEAD_ENVELOPE) == rest
    assert unseal(AEAD_KEY, letter, AEAD_ENVELOPE) == AEAD_TEXT


def test_no_two_letters_share_a_nonce() -> None:
    assert len({seal(AEAD_KEY, b"x", b"")[:NONCE_BYTES] for _ in range(500)}) == 500


def test_every_changed_byte_of_a_letter_is_noticed() -> None:
    letter = seal(AEAD_KEY, b"some text", b"envelope")
    for at in range(len(letter)):
        changed = letter[:at] + bytes([letter[at] ^ 0x40]) + letter[at + 1 :]
        with pytest.raises(ProtocolError, match="letter from 'bob' cannot be opened"):
            unseal(AEAD_KEY, changed, b"envelope", sender="bob")


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 27])
def test_a_letter_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        unseal(AEAD_KEY, seal(AEAD_KEY, b"text", b"e")[:length], b"e")


def test_a_letter_in_another_envelope_or_under_another_key_is_refused() -> None:
    letter = seal(AEAD_KEY, b"text", b"to bob")
    with pytest.raises(ProtocolError):
        unseal(AEAD_KEY, letter, b"to carol")
    with pytest.raises(ProtocolError):
        unseal(bytes(32), letter, b"to bob")
