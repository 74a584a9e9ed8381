"""Ratios for the hulls method, all taken in one run: ours ÷ the reference or the limit.

    python benchmarks/hulls.py            # everything, about ten minutes; writes results/hulls.json
    python benchmarks/hulls.py --quick    # small sizes; writes nothing
    python benchmarks/hulls.py --json     # the last line is one JSON object
    python benchmarks/hulls.py --only rows|hull|run|scma|sum|many

Times are CPU seconds of this process, the smaller of a few repetitions; ratios below 1 mean that ours is
faster.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main


def cpu_seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """Return the least CPU time of a few repetitions."""
    best = float("inf")
    for _ in range(repeat):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def hull(quick: bool) -> dict[str, Any]:
    """Compare our hull, Klein map and checks included, with Qhull alone on Klein points."""
    from scipy.spatial import ConvexHull

    from fedgeom.geometry.hyperbolic.hull import convex_hull
    from fedgeom.geometry.hyperbolic.poincare import to_klein
    from fedgeom.geometry.hyperbolic.sampling import uniform_disc

    ratios = {}
    for n in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000):
        points = uniform_disc(n, 0.95, np.random.default_rng(n))
        klein = to_klein(points)
        ours = cpu_seconds(lambda points=points: convex_hull(points), 7)
        qhull = cpu_seconds(lambda klein=klein: ConvexHull(klein), 7)
        ratios[str(n)] = {"ours_s": ours, "qhull_s": qhull, "ratio": ours / qhull}
    return ratios


def whole_run(quick: bool) -> dict[str, Any]:
    """Compare the whole secure run with the same on pooled rows, on Olsson when found, else on a drawn set."""
    import fedgeom
    from fedgeom.data.datasets import load_set
    from fedgeom.errors import FedgeomError
    from fedgeom.geometry.hyperbolic.sampling import labelled_disc
    from papers.hulls.plain import plain

    try:
        name, sites = "olsson", load_set("olsson").train
    except FedgeomError:
        drawn = labelled_disc(2000, 0.95, 0.1, np.random.default_rng(0), reference_norm=0.4)
        name, sites = "synthetic", fedgeom.split(drawn.X, drawn.y, 3)
    method = fedgeom.Hulls(min_rows=1)
    pairs = [(site.X, site.y) for site in sites]
    fedgeom.run(method, sites)  # imports and label tables are not part of either
    secure = cpu_seconds(lambda: fedgeom.run(method, sites))
    bare = cpu_seconds(lambda: plain(pairs, classifier=fedgeom.PoincareSVC(C=method.C)))
    return {"data": name, "secure_s": secure, "plain_s": bare, "ratio": secure / bare}


def scma(quick: bool) -> dict[str, Any]:
    """Compare decoding with FLINT's own root finder, and decode a large word at all."""
    from flint import nmod_poly

    from fedgeom.codes.scma import ScmaCode
    from fedgeom.methods.hulls.encoding import field_above

    bins = 2**40
    modulus = field_above(bins)
    result: dict[str, Any] = {"field_bits": modulus.bit_length()}
    for count in (200, 2000) if quick else (200, 2000, 20_000):
        rng = np.random.default_rng(count)
        places = np.unique(rng.integers(1, bins, count))
        code = ScmaCode(modulus, count, bins)
        word = code.encode(places, rng.integers(1, 2**30, len(places)))
        found, _ = code.decode(word)
        assert np.array_equal(found, places)
        ours = cpu_seconds(lambda code=code, word=word: code.decode(word), 1 if count > 2000 else 3)
        result[str(count)] = {"decode_s": ours}
        if count <= 2000:
            locator = nmod_poly([1], modulus)
            for place in places.tolist():
                locator *= nmod_poly([-place % modulus, 1], modulus)
            flint = cpu_seconds(lambda locator=locator: locator.roots(), 1)
            result[str(count)] |= {"flint_roots_s": flint, "ratio": ours / flint}
    return result


def secure_sum(quick: bool) -> dict[str, Any]:
    """Compare one site's masking of a vector among 100 sites with the ring's bare cipher on as many bytes."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    from fedgeom.crypto.masks import Ring, add_masks
    from fedgeom.methods.hulls.encoding import field_above

    entries = 10_000 if quick else 100_000
    peers = 99
    keys = [os.urandom(32) for _ in range(peers + 1)]
    zeros = bytes(1 << 16)

    def cipher(prime: bool) -> None:
        for key in keys:
            made = Cipher(AES(key), CTR(bytes(16))) if prime else Cipher(ChaCha20(key, bytes(16)), mode=None)
            encryptor = made.encryptor()
            buffer = bytearray(len(zeros))
            for start in range(0, 8 * entries, len(zeros)):
                encryptor.update_into(zeros[: 8 * entries - start], buffer)

    size = 8 * entries * len(keys) / 1e6
    result: dict[str, Any] = {"sites": 100, "entries": entries}
    for name, modulus in (("2^64", 2**64), ("prime of 50 bits", field_above(2**49))):
        ring, vector = Ring(modulus), np.zeros(entries, np.uint64)
        bare = cpu_seconds(lambda ring=ring: cipher(not ring.is_power_of_two))
        ours = cpu_seconds(
            lambda ring=ring, vector=vector: add_masks(vector, ring, plus=keys[:50], minus=keys[50:])
        )
        result[name] = {"MB_per_s": size / ours, "cipher_MB_per_s": size / bare, "ratio": ours / bare}
    return result


def many_sites(quick: bool) -> dict[str, Any]:
    """Run the one-shot protocol with many sites and more in this process; the exponent is that of the CPU time by n.

    What is told in full is the run of 1,000 sites (``--quick``: of 100).
    """
    counts = (20, 100) if quick else (100, 200, 400, 1000, 2000)
    _one_shot(5)  # imports are no part of it
    found = {n: _one_shot(n) for n in counts}
    by_sites = {str(n): round(one["cpu_s"], 2) for n, one in found.items()}
    growth = np.log(found[counts[-1]]["cpu_s"] / found[counts[0]]["cpu_s"]) / np.log(counts[-1] / counts[0])
    told = found[100 if quick else 1000]
    span = {"fewest": counts[0], "most": counts[-1], "exponent": float(growth)}
    return told | {"cpu_s_by_sites": by_sites, **span, "most_peak_GiB": found[counts[-1]]["peak_GiB"]}


def _one_shot(n: int) -> dict[str, Any]:
    import fedgeom
    from fedgeom.geometry.hyperbolic.sampling import labelled_disc

    drawn = labelled_disc(60 * n, 0.95, 0.1, np.random.default_rng(0), reference_norm=0.3)
    sites = fedgeom.split(drawn.X, drawn.y, n)
    began = time.process_time()
    wall = time.perf_counter()
    run = fedgeom.run(fedgeom.Hulls(epsilon=0.1), sites)
    model = run.model.for_site(run.local[sites[0].name])
    return {
        "sites": n,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - began,
        "peak_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "kB_sent_per_site": run.ledger.sent() / n / 1e3,
        "hull_points": run.metrics["hull_points"],
        "accuracy": float(np.mean(model.predict(drawn.X) == drawn.y)),
    }


def many_rows(quick: bool) -> dict[str, Any]:
    """Compare a secure run over very many rows with the same on pooled rows, and with the sites' hulls alone."""
    import fedgeom
    from fedgeom import memo
    from fedgeom.geometry.hyperbolic.sampling import uniform_disc
    from fedgeom.methods.hulls.core import class_hulls, classifier_of
    from papers.hulls.plain import plain

    n = 200_000 if quick else 1_000_000
    count = 10
    rng = np.random.default_rng(0)
    X = uniform_disc(n, 0.9, rng)
    owner = rng.integers(0, 5, n)
    sector = np.floor((np.arctan2(X[:, 1], X[:, 0]) / np.pi + 1) * count / 2).astype(int).clip(0, count - 1)
    names = np.array([f"c{k}" for k in range(count)])
    sites = [fedgeom.SiteData(f"s{k}", X[owner == k], names[sector[owner == k]]) for k in range(5)]
    method = fedgeom.Hulls(epsilon=0.1, n_classes=count)
    fedgeom.run(method, [site.some(400) for site in sites])  # imports and label tables are not part of either

    def pooled() -> Any:
        tables = [(site.X, site.y) for site in sites]
        return plain(tables, epsilon=method.epsilon, n_classes=count, classifier=classifier_of(method))

    def anew(work: Callable[[], Any]) -> float:
        return cpu_seconds(lambda: (memo.clear(class_hulls), work()), 1)

    turns = [
        (
            anew(lambda: fedgeom.run(method, sites)),
            anew(pooled),
            anew(lambda: [class_hulls(site.X, site.y, method.trim, c=1.0) for site in sites]),
        )
        for _ in range(1 if quick else 6)
    ]
    ours, twin, alone = (min(one) for one in zip(*turns, strict=True))
    return {
        "rows": n,
        "seconds": ours,
        "twin_seconds": twin,
        "hulls_seconds": alone,
        "over_twin": ours / twin,
        "over_hulls": ours / alone,
    }


PARTS = {"rows": many_rows, "hull": hull, "run": whole_run, "scma": scma, "sum": secure_sum, "many": many_sites}


if __name__ == "__main__":
    main(__doc__, PARTS, "hulls")
