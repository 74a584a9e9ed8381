"""Identities, shared keys and rosters: published vectors, symmetry, and what forgery runs into."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import fedgeom
from fedgeom.crypto import keys as keys_module
from fedgeom.crypto.keys import (
    _PREFIXES,
    Identity,
    Roster,
    agreement,
    decapsulate,
    derive,
    describe_identity,
    encapsulate,
    exchange_public,
    fingerprint,
    forget_agreements,
    hash_names,
    hybrid,
    kem_public,
    new_exchange_secret,
    new_kem_secret,
    verify,
    verify_each,
)
from fedgeom.errors import InputError, ProtocolError

raw = bytes.fromhex

# RFC 7748, section 6.1
ALICE = raw("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = raw("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = raw("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = raw("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
AGREED = raw("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")

# RFC 8032, section 7.1, test 1
SIGNER = raw("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
SIGNER_PUBLIC = raw("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE_OF_NOTHING = raw(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def shared_key(secret: bytes, public: bytes, *context: bytes) -> bytes:
    return derive(agreement(secret, public), *context)


def hkdf_by_hand(agreed: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block of output."""

    return mac(extracted(agreed), info + b"\x01")


def extracted(agreed: bytes) -> bytes:
    return mac(bytes(32), agreed)


def mac(key: bytes, text: bytes) -> bytes:
    code = hmac.HMAC(key, hashes.SHA256())
    code.update(text)
    return code.finalize()


def test_public_exchange_keys_match_rfc_7748() -> None:
    assert exchange_public(ALICE) == ALICE_PUBLIC
    assert exchange_public(BOB) == BOB_PUBLIC


def test_the_shared_key_is_hkdf_of_the_rfc_7748_secret() -> None:
    context = (b"letter", b"run", b"alice", b"bob")
    wanted = hkdf_by_hand(AGREED, fingerprint(*context))
    assert shared_key(ALICE, BOB_PUBLIC, *context) == wanted
    assert shared_key(BOB, ALICE_PUBLIC, *context) == wanted


def test_different_contexts_give_different_keys() -> None:
    contexts = [(), (b"",), (b"a",), (b"a", b""), (b"", b"a"), (b"ab",), (b"a", b"b"), (b"b", b"a")]
    assert len({shared_key(ALICE, BOB_PUBLIC, *context) for context in contexts}) == len(contexts)


def test_two_fresh_secrets_agree_and_differ_from_others() -> None:
    a, b, c = (new_exchange_secret() for _ in range(3))
    assert shared_key(a, exchange_public(b), b"x") == shared_key(b, exchange_public(a), b"x")
    assert shared_key(a, exchange_public(b), b"x") != shared_key(a, exchange_public(c), b"x")


@pytest.mark.parametrize("public", [bytes(32), (1).to_bytes(32, "little"), b"", bytes(31), bytes(33)])
def test_weak_or_malformed_public_keys_are_refused(public: bytes) -> None:
    with pytest.raises(ProtocolError, match="not a valid X25519 key"):
        shared_key(ALICE, public, b"x")


def test_a_secret_is_opened_by_the_holder_of_the_key_and_nobody_else() -> None:
    for made_here in (True, False):
        own, other = new_kem_secret(), new_kem_secret()
        if not made_here:
            forget_agreements()
        public = kem_public(own)
        made = encapsulate(public)
        assert (len(public), len(made.ciphertext), len(made.secret)) == (1184, 1088, 32)
        assert decapsulate(own, public, made.ciphertext) == made.secret
        assert MLKEM768PrivateKey.from_seed_bytes(own).decapsulate(made.ciphertext) == made.secret
        assert decapsulate(other, kem_public(other), made.ciphertext) != made.secret
        changed = bytes([made.ciphertext[0] ^ 1]) + made.ciphertext[1:]
        assert decapsulate(own, public, changed) not in (made.secret, bytes(32))
        assert encapsulate(public).secret != made.secret
    forget_agreements()
    assert len(keys_module._ENCAPSULATED) == 0


@pytest.mark.parametrize("public", [b"", bytes(1183), bytes(1185), b"\xff" * 1184])
def test_malformed_encapsulation_keys_and_ciphertexts_are_refused_by_name(public: bytes) -> None:
    with pytest.raises(ProtocolError, match="public key of 'berlin' is not a valid ML-KEM-768 key"):
        encapsulate(public, owner="berlin")
    own = new_kem_secret()
    with pytest.raises(ProtocolError, match="ciphertext of 'berlin' is not a valid one"):
        decapsulate(own, kem_public(own), public, sender="berlin")


def test_the_hybrid_is_hkdfs_extraction_over_all_secrets_with_what_was_shown_as_salt() -> None:
    one, two, three = (bytes([n]) * 32 for n in (1, 2, 3))
    wanted = mac(fingerprint(b"fedgeom/3 hybrid", b"run", b"keys"), one + two + three)
    assert hybrid(one, two, three, b"run", b"keys") == wanted
    others = [(three, two, one, b"run", b"keys"), (one, two, three, b"run"), (one, two, three, b"runkeys")]
    assert wanted not in [hybrid(*other) for other in others]
    with pytest.raises(InputError, match="secrets of 32, 31 and 32 bytes"):
        hybrid(one, two[:31], three)


def test_a_cryptography_without_ml_kem_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(seed: bytes) -> None:
        raise UnsupportedAlgorithm("ML-KEM-768 is not supported by this backend.")

    monkeypatch.setattr(keys_module.MLKEM768PrivateKey, "from_seed_bytes", unsupported)
    with pytest.raises(InputError, match=r"no ML-KEM-768.*OpenSSL 3\.5 or newer: pip install 'cryptography>="):
        new_kem_secret()


def test_identities_match_rfc_8032() -> None:
    assert Identity(SIGNER).public == SIGNER_PUBLIC
    assert Identity(SIGNER + bytes(32)).public[:32] == SIGNER_PUBLIC
    assert Ed25519PrivateKey.from_private_bytes(SIGNER).sign(b"") == SIGNATURE_OF_NOTHING
    keys_module._verify(SIGNER_PUBLIC, SIGNATURE_OF_NOTHING, b"")


def test_a_signature_is_ed25519_over_the_hashed_statement() -> None:
    statement = fingerprint(b"fedgeom/1 keys", b"one", b"two")
    wanted = Ed25519PrivateKey.from_private_bytes(SIGNER).sign(statement)
    assert Identity(SIGNER).sign("keys", b"one", b"two") == wanted
    verify(SIGNER_PUBLIC, wanted, "keys", b"one", b"two")


def test_an_identity_signs_keys_by_both_algorithms_and_sums_by_one() -> None:
    me = Identity.generate()
    assert (len(me.secret), len(me.public)) == (64, 32 + 1952)
    signature = me.sign("keys", b"one")
    assert len(signature) == 64 + 3309
    statement = fingerprint(b"fedgeom/1 keys", b"one")
    Ed25519PublicKey.from_public_bytes(me.public[:32]).verify(signature[:64], statement)
    MLDSA65PublicKey.from_public_bytes(me.public[32:]).verify(signature[64:], statement)
    assert me.sign("alive", b"one") == Identity(me.secret[:32]).sign("alive", b"one")
    verify(me.public, me.sign("alive", b"one"), "alive", b"one")


@pytest.mark.parametrize("purpose", ["keys", "introduction"])
def test_where_the_roster_has_both_keys_both_signatures_are_demanded(purpose: str) -> None:
    me, other = Identity.generate(), Identity.generate()
    good, old = me.sign(purpose, b"x"), Identity(me.secret[:32]).sign(purpose, b"x")
    verify(me.public, good, purpose, b"x", signer="ulm")
    verify(me.public[:32], old, purpose, b"x", signer="ulm")
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    half_forged = [
        (me.public, old, "by the roster it is one of Ed25519 and ML-DSA-65 with 3,373"),
        (me.public, good[:64] + bytes(3309), "is not valid"),
        (me.public, flipped, "is not valid"),
        (me.public, good[:64] + other.sign(purpose, b"x")[64:], "is not valid"),
        (me.public, other.sign(purpose, b"x")[:64] + good[64:], "is not valid"),
        (me.public, good[:64] + me.sign(purpose, b"y")[64:], "is not valid"),
        (me.public[:32], good, "by the roster it is one of Ed25519 with 64"),
        (me.public[:32] + other.public[32:], good, "is not valid"),
    ]
    for public, signature, why in half_forged:
        with pytest.raises(ProtocolError, match=f"signature of 'ulm' for '{purpose}'.*{why}"):
            verify(public, signature, purpose, b"x", signer="ulm")


def test_a_cryptography_without_ml_dsa_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*given: bytes) -> None:
        raise UnsupportedAlgorithm("ML-DSA-65 is not supported by this backend.")

    me = Identity.generate()
    signature = me.sign("keys", b"x")
    monkeypatch.setattr(keys_module.MLDSA65PrivateKey, "from_seed_bytes", unsupported)
    monkeypatch.setattr(keys_module.MLDSA65PublicKey, "from_public_bytes", unsupported)
    for use in (Identity.generate, lambda: verify(me.public, signature, "keys", b"x")):
        with pytest.raises(InputError, match=r"no ML-DSA-65.*pip install 'cryptography>="):
            use()


@pytest.mark.parametrize("size", [0, 31, 33, 65])
def test_an_identity_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"an identity of {size} bytes given; wanted 64"):
        Identity(bytes(size))


def test_a_signature_fits_one_purpose_one_statement_and_one_signer() -> None:
    me, other = Identity.generate(), Identity.generate()
    good = me.sign("keys", b"one", b"two")
    verify(me.public, good, "keys", b"one", b"two")
    flipped = bytes([good[0] ^ 1]) + good[1:]
    forgeries = [
        (me.public, good, "alive", (b"one", b"two")),
        (me.public, good, "keys", (b"onetwo",)),
        (me.public, good, "keys", (b"two", b"one")),
        (other.public, good, "keys", (b"one", b"two")),
        (me.public, flipped, "keys", (b"one", b"two")),
        (me.public, b"", "keys", (b"one", b"two")),
        (b"", good, "keys", (b"one", b"two")),
    ]
    for _ in range(2):  # a failure is not remembered as a success, nor the other way round
        for public, signature, purpose, parts in forgeries:
            with pytest.raises(ProtocolError, match="signature of 'me' for"):
                verify(public, signature, purpose, *parts, signer="me")
        verify(me.public, good, "keys", b"one", b"two")


def test_an_identity_does_not_print_its_secret() -> None:
    identity = Identity.generate()
    assert identity.secret.hex()[:8] not in repr(identity)
    assert repr(identity.secret) not in repr(identity)


def test_fingerprints_of_different_lists_differ() -> None:
    lists = [(), (b"",), (b"", b""), (b"ab",), (b"a", b"b"), (b"b", b"a"), (b"a", b"b", b"")]
    assert len({fingerprint(*parts) for parts in lists}) == len(lists)


def test_a_roster_survives_its_file(tmp_path: Path) -> None:
    keys = {name: Identity.generate().public for name in ("b", "a", "Zürich, 3rd floor")}
    roster = Roster(keys | {"b": keys["b"][:32]})
    roster.save(tmp_path / "roster.json")
    loaded = Roster.load(tmp_path / "roster.json")
    assert dict(loaded) == dict(roster)
    assert list(loaded) == sorted(roster)
    assert len(loaded) == 3
    assert loaded.classical == ("b",)
    text = (tmp_path / "roster.json").read_text()
    shown = describe_identity(keys["a"])
    assert shown in text
    assert "Ed25519 alone" in describe_identity(keys["b"][:32])
    (tmp_path / "roster.json").write_text(text.replace(shown, describe_identity(Identity.generate().public)))
    with pytest.raises(InputError, match="keys of 'a' are not those of the identity that is listed with them"):
        Roster.load(tmp_path / "roster.json")


def test_a_roster_from_before_is_read(tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_text(f'{{"a": "{SIGNER_PUBLIC.hex()}"}}')
    roster = Roster.load(tmp_path / "roster.json")
    assert (dict(roster), roster.classical) == ({"a": SIGNER_PUBLIC}, ("a",))


def test_a_roster_refuses_keys_of_the_wrong_length() -> None:
    with pytest.raises(InputError, match=r"'a' has a key of 31 bytes; wanted 1,984 .*or 32"):
        Roster({"a": bytes(31)})


def test_a_roster_refuses_one_key_under_two_names() -> None:
    with pytest.raises(InputError, match="same key"):
        Roster({"a": bytes(32), "b": bytes(32)})
    with pytest.raises(InputError, match="same key"):
        Roster({"a": bytes(32), "b": bytes(1984)})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a": 1}', '{"a": "xyz"}', '{"a": "00"}', '{"a": null}', b'{"a": "\xff"}'.decode("latin1")],
)
def test_a_file_that_is_no_roster_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "roster.json"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(InputError):
        Roster.load(path)


def test_signatures_of_several_under_one_statement() -> None:
    identities = {name: Identity.generate() for name in "abc"}
    roster = {name: identity.public for name, identity in identities.items()}
    signed = {name: identity.sign("masked", b"x", b"y") for name, identity in identities.items()}
    verify_each(roster, signed, "masked", b"x", b"y")
    verify_each(roster, {}, "masked", b"x", b"y")
    for spoilt in (signed | {"b": signed["a"]}, signed | {"b": bytes(64)}, signed | {"b": b""}):
        with pytest.raises(ProtocolError, match="signature of 'b' for 'masked' is not valid"):
            verify_each(roster, spoilt, "masked", b"x", b"y")
    with pytest.raises(ProtocolError, match="signature of 'd'"):
        verify_each(roster, signed | {"d": signed["a"]}, "masked", b"x", b"y")
    with pytest.raises(ProtocolError, match="signature of 'a'"):
        verify_each(roster, signed, "alive", b"x", b"y")


@pytest.mark.parametrize("length", [0, len(_PREFIXES) - 1, len(_PREFIXES), 2**18 + 1])
def test_long_parts_are_hashed_as_short_ones_are(length: int) -> None:
    parts = (b"a", bytes(length), b"")
    joined = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert fingerprint(*parts) == hashlib.sha256(joined).digest()
    assert fingerprint(*parts[::2]) == hashlib.sha256(b"\0" * 7 + b"\1a" + bytes(8)).digest()
    assert hash_names(("a", "é")) == fingerprint(b"a", "é".encode())


@pytest.mark.parametrize("most", [1, 3])
def test_agreements_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(keys_module._AGREEMENTS, "max_entries", most)
    own, peers = new_exchange_secret(), [new_exchange_secret() for _ in range(10)]
    for peer in peers * 2:
        agreed = agreement(own, exchange_public(peer))
        assert agreed == agreement(peer, exchange_public(own))
        public = X25519PrivateKey.from_private_bytes(peer).public_key()
        assert agreed == extracted(X25519PrivateKey.from_private_bytes(own).exchange(public))
    assert len(keys_module._AGREEMENTS) == most
    forget_agreements()


def test_keys_made_here_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_MADE_HERE", {})
    monkeypatch.setattr(keys_module, "_MOST_PAIRS", 6)
    made = [exchange_public(new_exchange_secret()) for _ in range(5)]
    assert list(keys_module._MADE_HERE) == made[2:]


def test_a_site_in_a_process_of_its_own_keeps_no_agreement() -> None:
    forget_agreements()
    own, elsewhere = new_exchange_secret(), X25519PrivateKey.generate()
    agreed = agreement(own, elsewhere.public_key().public_bytes_raw())
    assert agreed == extracted(elsewhere.exchange(X25519PrivateKey.from_private_bytes(own).public_key()))
    assert len(keys_module._AGREEMENTS) == 0
    agreement(own, exchange_public(new_exchange_secret()))
    assert len(keys_module._AGREEMENTS) == 1
    forget_agreements()
    assert len(keys_module._AGREEMENTS) == 0


def test_nothing_that_simulated_sites_agreed_on_stays_when_their_run_is_over() -> None:
    sites = [fedgeom.SiteData(name, np.array([[0.0], [1.0]] * 3), ["a", "b"] * 3) for name in ("x", "y", "z")]
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites)
    assert len(keys_module._AGREEMENTS) == 0
