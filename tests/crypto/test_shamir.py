"""Secret sharing: by hand, as laws, and what too few shares tell."""

from __future__ import annotations

import contextlib
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto import shamir
from fedgeom.crypto.shamir import PRIME, recover, share, weights_at_zero
from fedgeom.errors import InputError, ProtocolError
from tests.tiers import examples


def number(share: bytes) -> int:
    return int.from_bytes(share, "big")


def interpolate(points: dict[int, int], at: int) -> int:
    """Lagrange by the book, apart from the module's own code."""
    total = 0
    for x, y in points.items():
        term = y
        for other in points:
            if other != x:
                term = term * (at - other) * pow(x - other, -1, PRIME) % PRIME
        total += term
    return total % PRIME


def test_the_prime_is_prime_and_the_smallest_above_256_bits() -> None:
    def is_probable_prime(n: int) -> bool:
        odd, twos = n - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for _ in range(40):
            x = pow(secrets.randbelow(n - 3) + 2, odd, n)
            if x in (1, n - 1):
                continue
            for _ in range(twos - 1):
                x = x * x % n
                if x == n - 1:
                    break
            else:
                return False
        return True

    assert is_probable_prime(PRIME)
    assert not any(is_probable_prime(n) for n in range(2**256 + 1, PRIME))
    assert PRIME > 2**256
    assert PRIME < 2 ** (8 * shamir.SHARE_BYTES)


def test_a_line_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shamir, "_uniform", lambda count: [7] * count)  # 5 + 7x
    shares = share((5).to_bytes(32, "big"), 2, [1, 2, 3])
    assert {x: number(s) for x, s in shares.items()} == {1: 12, 2: 19, 3: 26}
    assert weights_at_zero([1, 2]) == [2, PRIME - 1]  # 2·12 - 19 = 5
    assert recover({1: shares[1], 3: shares[3]}, 2) == (5).to_bytes(32, "big")


def test_a_parabola_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shamir, "_uniform", lambda count: [3, 2])  # 1 + 2x + 3x²
    shares = share((1).to_bytes(32, "big"), 3, [1, 2, 4])
    assert {x: number(s) for x, s in shares.items()} == {1: 6, 2: 17, 4: 57}


@examples(40)
@given(data=st.data(), given_secrets=st.lists(st.binary(min_size=32, max_size=32), max_size=9))
def test_secrets_that_are_shared_side_by_side_do_not_touch(
    data: st.DataObject, given_secrets: list[bytes]
) -> None:
    """Also with the largest coefficients, where a slot that were too small would run over into the next."""
    holders = data.draw(st.lists(st.integers(1, 100_000), min_size=1, max_size=70, unique=True))
    threshold = data.draw(st.integers(1, len(holders)))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(shamir, "_uniform", lambda count: [PRIME - 1] * count)
        shares = shamir.share_each(given_secrets, threshold, holders)
    for at, secret in enumerate(given_secrets):
        assert recover({x: shares[x][at] for x in holders}, threshold) == secret


def test_coefficients_are_elements_of_the_field_and_of_all_its_sizes() -> None:
    drawn = shamir._uniform(4000)
    assert len(drawn) == len(set(drawn)) == 4000
    assert max(drawn) < PRIME
    top = [value >> 254 for value in drawn]
    assert all(900 < top.count(quarter) < 1100 for quarter in range(4))


@examples(60)
@given(data=st.data(), secret=st.binary(min_size=32, max_size=32))
def test_any_threshold_many_shares_give_the_secret_back(data: st.DataObject, secret: bytes) -> None:
    holders = data.draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=12, unique=True))
    threshold = data.draw(st.integers(1, len(holders)))
    shares = share(secret, threshold, holders)
    subset = data.draw(st.permutations(holders))[: data.draw(st.integers(threshold, len(holders)))]
    assert recover({x: shares[x] for x in subset}, threshold) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, b"\x80" + bytes(31)])
def test_the_extreme_secrets_survive(secret: bytes) -> None:
    assert recover(share(secret, 3, [1, 2, 3, 4]), 3) == secret


@examples(30)
@given(
    secret=st.binary(min_size=32, max_size=32),
    candidate=st.binary(min_size=32, max_size=32),
    threshold=st.integers(2, 6),
)
def test_with_one_share_less_every_secret_is_still_possible(
    secret: bytes, candidate: bytes, threshold: int
) -> None:
    shares = share(secret, threshold, range(1, 9))
    seen = {x: number(shares[x]) for x in range(1, threshold)}
    # the polynomial through (0, candidate) and all seen shares has degree threshold - 1, as it should
    points = {0: number(candidate)} | seen
    forged = {x: interpolate(points, x).to_bytes(shamir.SHARE_BYTES, "big") for x in range(1, 9)}
    assert all(forged[x] == shares[x] for x in seen)
    assert recover({x: forged[x] for x in range(9 - threshold, 9)}, threshold) == candidate


def test_shares_of_one_secret_are_new_each_time() -> None:
    secret = secrets.token_bytes(32)
    assert len({share(secret, 2, [1, 2])[1] for _ in range(50)}) == 50


def test_too_few_shares_are_refused() -> None:
    shares = share(bytes(32), 3, [1, 2, 3])
    with pytest.raises(ProtocolError, match="2 shares came, 3 are needed"):
        recover({1: shares[1], 2: shares[2]}, 3)


def test_a_wrong_share_gives_another_secret_or_none() -> None:
    secret = secrets.token_bytes(32)
    shares = share(secret, 2, [1, 2, 3])
    wrong = shares | {1: ((number(shares[1]) + 1) % PRIME).to_bytes(shamir.SHARE_BYTES, "big")}
    with contextlib.suppress(ProtocolError):
        assert recover(wrong, 2) != secret


def test_shares_of_no_256_bit_secret_are_refused() -> None:
    above = (2**256 + 1).to_bytes(shamir.SHARE_BYTES, "big")
    with pytest.raises(ProtocolError, match="do not belong together"):
        recover({1: above}, 1)


@pytest.mark.parametrize(
    ("secret", "threshold", "holders"),
    [
        (bytes(31), 1, [1]),
        (bytes(33), 1, [1]),
        (bytes(32), 0, [1]),
        (bytes(32), 3, [1, 2]),
        (bytes(32), 1, []),
        (bytes(32), 1, [0, 1]),
        (bytes(32), 1, [-1, 1]),
        (bytes(32), 1, [1, 1]),
    ],
)
def test_unusable_parameters_are_refused(secret: bytes, threshold: int, holders: list[int]) -> None:
    with pytest.raises(InputError):
        share(secret, threshold, holders)
