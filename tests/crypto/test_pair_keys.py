"""Keys of pairs: one agreement for all sums, and locks that open one sum each."""

from __future__ import annotations

import secrets

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import key_at, keys_by_sum, lock, mask_key, mask_keys, open_keys, proof_of
from fedgeom.errors import ProtocolError


def test_a_pairs_keys_are_the_pieces_of_a_chacha20_stream() -> None:
    roots = [secrets.token_bytes(32) for _ in range(3)]
    sums = keys_by_sum(roots, 5)
    assert [len(keys) for keys in sums] == [96] * 5
    for place, root in enumerate(roots):
        stream = Cipher(ChaCha20(root, bytes(16)), mode=None).encryptor().update(bytes(160))
        assert b"".join(key_at(keys, place) for keys in sums) == stream
    assert len({key_at(keys, place) for keys in sums for place in range(3)}) == 15
    assert keys_by_sum(roots, 0) == ()
    assert keys_by_sum([], 2) == (b"", b"")


def test_a_secret_opens_what_it_locked_and_nothing_else() -> None:
    sums = keys_by_sum([secrets.token_bytes(32) for _ in range(4)], 2)
    own = [secrets.token_bytes(32) for _ in sums]
    locked = [lock(keys, secret) for keys, secret in zip(sums, own, strict=True)]
    assert [open_keys(one, secret, 4) for one, secret in zip(locked, own, strict=True)] == list(sums)
    assert open_keys(locked[0], own[1], 4) != sums[0]
    # Whoever knows one pair's key of a sum, its other end, knows a piece of the pad, and of the other keys nothing.
    pad = lock(bytes(128), own[0])
    assert len({key_at(pad, place) for place in range(4)}) == 4
    for length in (0, 96, 127, 160):
        with pytest.raises(ProtocolError, match="128 are wanted"):
            open_keys(bytes(length), own[0], 4)


def test_the_pad_is_the_stream_of_a_hash_of_the_secret_which_serves_nothing_else() -> None:
    secret = secrets.token_bytes(32)
    stream = Cipher(ChaCha20(fingerprint(b"locked keys", secret), bytes(16)), mode=None).encryptor()
    assert lock(bytes(64), secret) == stream.update(bytes(64))


def test_a_key_of_a_mask_is_a_fingerprint_of_the_pairs_key_and_the_question() -> None:
    keys, question = [secrets.token_bytes(32) for _ in range(3)], secrets.token_bytes(32)
    assert mask_keys(keys, question) == [fingerprint(b"pair mask", key, question) for key in keys]
    assert mask_key(keys[1], question) == mask_keys(keys, question)[1]


def test_proofs_and_masks_tell_no_key() -> None:
    key, question = secrets.token_bytes(32), secrets.token_bytes(32)
    assert len(proof_of(key)) == 16
    assert proof_of(key) not in key + mask_key(key, question)
    assert mask_key(key, question) != mask_key(key, key)
