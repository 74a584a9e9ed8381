"""Secure Hamming: what the variants cost, all taken in one run.

    python benchmarks/hamming.py            # two sites of 100 points at L = 1024 and 4096; writes results/hamming.json
    python benchmarks/hamming.py --quick    # fewer repetitions; writes nothing
    python benchmarks/hamming.py --json     # the last line is one JSON object (it always is; this prints nothing else)
    python benchmarks/hamming.py --only plain|bfv|lattice|ot|paillier    # others in the results stay as they are

``cpu_s`` is the CPU time of this process for both sites together, the smaller of a few repetitions; ``bytes`` is
the size of all letters between them, before sealing. Figures for Paillier are extrapolated, and marked so: each
kind of operation is timed on a sample and multiplied with how often the protocol does it. The published, unpacked
protocol is given the same fast arithmetic as the packed one (its owner encrypts modulo p² and q² apart); with
encryption as written in the paper it would take about three times as long. Figures that stand outside ``L1024``
are those for L = 4096.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.protocols.hamming import DEFAULT, PackedBits, converse, open_shares, plain_distances, variant

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, measure_parts, parser, read

POINTS = 100
LENGTHS = (1024, 4096)


def cpu_seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """Return the least CPU time of a few repetitions."""
    best = float("inf")
    for _ in range(repeat):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def drawn(length: int) -> tuple[PackedBits, PackedBits]:
    """Return two sites' vectors; one of each is the other's complement, so that L itself occurs."""
    rng = np.random.default_rng(length)
    one, two = rng.integers(0, 2, (2, POINTS, length), np.uint8)
    two[0], two[1] = 1 - one[0], one[1]
    return PackedBits.of(one), PackedBits.of(two)


def plain(quick: bool) -> dict[str, Any]:
    """Measure the distances in the clear: the bytes are those of one site's packed bits."""
    result: dict[str, Any] = {}
    for length in LENGTHS:
        one, two = drawn(length)
        cpu = cpu_seconds(lambda one=one, two=two: plain_distances(one, two))
        result[f"L{length}"] = {"exact": True, "cpu_s": cpu, "bytes": one.rows.nbytes}
    return result[f"L{LENGTHS[-1]}"] | result


def secure(name: str, quick: bool) -> dict[str, Any]:
    """Hold the whole conversation and check every distance."""
    kind = variant(name)
    result: dict[str, Any] = {}
    small = drawn(8)
    converse(kind, *small)  # libraries are loaded and tables made once in a process
    for length in LENGTHS:
        one, two = drawn(length)
        talks = []
        cpu = cpu_seconds(
            lambda one=one, two=two, talks=talks: talks.append(converse(kind, one, two)), 1 if quick else 3
        )
        exact = all(
            np.array_equal(open_shares(talk.asker, talk.helper, length, kind.group), plain_distances(one, two))
            for talk in talks
        )
        sent = sum(map(len, talks[-1].letters))
        result[f"L{length}"] = {"exact": exact, "cpu_s": cpu, "bytes": sent, "letters": kind.passes}
    return result[f"L{LENGTHS[-1]}"] | result


def paillier(quick: bool) -> dict[str, Any]:
    """Time each kind of operation on a sample, check a small conversation, and multiply."""
    from fedgeom.crypto.paillier import SecretKey

    count = 20 if quick else 100
    key = SecretKey.generate()
    public = key.public
    word = secrets.randbits(16 * POINTS)
    ciphers = [key.encrypt(word) for _ in range(count)]
    data = public.write(ciphers)
    each = {
        "encrypt": cpu_seconds(lambda: [key.encrypt(word) for _ in range(count)]) / count,
        "pass": cpu_seconds(lambda: public.read(public.write(public.read(data)))) / count,
        "multiply": cpu_seconds(lambda: public.product(ciphers * 20)) / (20 * count),
        "close": cpu_seconds(lambda: [public.close(public.quotient(c, c), word) for c in ciphers]) / count,
        "decrypt": cpu_seconds(lambda: [key.decrypt(cipher) for cipher in ciphers]) / count,
    }
    result: dict[str, Any] = {"extrapolated": True, "sample": count, "seconds_each": each}
    result["key_bits"] = public.n.bit_length()
    for name, groups in (("packed", 1), ("unpacked", POINTS)):
        kind = variant("paillier" if name == "packed" else "paillier-unpacked")
        small = PackedBits.of(drawn(8)[0].unpacked()[:4]), PackedBits.of(drawn(8)[1].unpacked()[:4])
        talk = converse(kind, *small)
        exact = np.array_equal(open_shares(talk.asker, talk.helper, 8, kind.group), plain_distances(*small))
        result[name] = {}
        for length in LENGTHS:
            inputs, answers = groups * length, groups * POINTS
            products = answers * length // 2 + inputs  # half of the helper's bits are ones
            cpu = (
                inputs * (each["encrypt"] + each["pass"])
                + products * each["multiply"]
                + answers * (each["close"] + each["pass"] + each["decrypt"])
            )
            sent = (inputs + answers) * public.cipher_bytes + public.n.bit_length() // 8
            result[name][f"L{length}"] = {"exact": exact, "cpu_s": cpu, "bytes": sent, "extrapolated": True}
    return result


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "plain": plain,
    "bfv": lambda quick: secure("bfv", quick),
    "lattice": lambda quick: secure("lattice", quick),
    "ot": lambda quick: secure("ot", quick),
    "paillier": paillier,
}


def beside_paillier(result: dict[str, Any]) -> dict[str, Any]:
    """Return the default's figures, and how many times longer unpacked Paillier takes, for each length."""
    each = {}
    for name in (f"L{length}" for length in LENGTHS):
        ratio = result["paillier"]["unpacked"][name]["cpu_s"] / result[DEFAULT][name]["cpu_s"]
        each[name] = result[DEFAULT][name] | {"paillier_over_default": ratio}
    return {"variant": DEFAULT, "points": POINTS, "L": LENGTHS[-1]} | each[f"L{LENGTHS[-1]}"] | each


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, PARTS).parse_args()
    result = measure_parts(options, PARTS)
    known = result if options.quick else read("hamming") | result
    if set(PARTS) <= set(known):
        known["default"] = beside_paillier(known)
        if not options.json:
            print(f"default\n{json.dumps(known['default'], indent=2)}")
        if not options.quick:
            keep("hamming", known)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
