"""Secure Hamming by oblivious transfer."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import msgspec
import numpy as np
import pytest

from fedgeom.protocols.hamming import (
    converse,
    open_shares,
    plain_distances,
    variant,
)
from tests.protocols.hamming.words import bits, even, flat, opened


def test_a_missing_site_leaves_the_others_as_they_were() -> None:
    kind = variant("ot")
    sites = {"a": bits(2, 30, 1), "b": bits(3, 30, 2), "c": bits(4, 30, 3)}

    def pairs(names: str) -> dict[tuple[str, str], list[list[int]]]:
        return {(x, y): opened(kind, sites[x], sites[y]).tolist() for x, y in combinations(names, 2)}

    everybody = pairs("abc")
    assert pairs("ab") == {pair: table for pair, table in everybody.items() if "c" not in pair}


def test_a_turn_may_find_a_new_process() -> None:
    kind, asker, helper = variant("ot"), bits(2, 20), bits(3, 20, 1)
    one = kind.begin(asker, 3)
    two = kind.step_b(helper, 2, None, one.letter or b"")
    program = (
        "import sys, msgspec, numpy as np\n"
        "from fedgeom.protocols.hamming import PackedBits, variant\n"
        "rows, state, letter = msgspec.msgpack.decode(sys.stdin.buffer.read())\n"
        "mine = PackedBits(np.frombuffer(rows, np.uint8).reshape(2, 3), 20)\n"
        "step = variant('ot').step_a(mine, 3, state, letter)\n"
        "sys.stdout.buffer.write(msgspec.msgpack.encode([step.state, step.letter]))\n"
    )
    given = msgspec.msgpack.encode([asker.rows.tobytes(), one.state, two.letter])
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, check=True)
    state, letter = msgspec.msgpack.decode(done.stdout)
    three = kind.step_b(helper, 2, two.state, letter)
    four = kind.step_a(asker, 3, state, three.letter or b"")
    assert four.share is not None
    assert three.share is not None
    assert np.array_equal(open_shares(four.share, three.share, 20), plain_distances(asker, helper))


@pytest.mark.parametrize("value", [0, 1])
def test_transfer_letters_are_uniform(value: int) -> None:
    talk = converse(variant("ot"), flat(8, 512, value), flat(20, 512, 1 - value))
    for letter in talk.letters[2:]:
        _, numbers = msgspec.msgpack.decode(letter)
        assert even(np.frombuffer(numbers, np.uint8))
