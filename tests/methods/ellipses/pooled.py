"""What Ellipses computes, from all tables in one place: a second way to every run's result, without a conversation.

Every site's Gaussians are written into their slots, added up, matched and told apart. The mathematics is fedgeom's own;
who asks whom, what sites keep and how they learn their names is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.federation.plain import Plain
from fedgeom.methods.ellipses.core import EllipseLayout, read_sum, vectors, write_classes
from fedgeom.methods.ellipses.matching import Matched, fit, joint_tree, match, named, settle
from fedgeom.methods.ellipses.messages import SumEllipseScales, SumGaussians
from fedgeom.methods.ellipses.model import EllipseModel
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.protocols.fixed_point import fixed_sum


def pooled(settings: EllipseSettings, sites: Sequence[SiteData], seed: int) -> Plain:
    """Compute what a run yields when no site is lost, from all sites' rows."""
    ordered = sorted(sites, key=lambda site: site.name)
    words: tuple[str, ...] = ()
    if settings.shared:
        words = settings.classes or tuple(sorted({str(one) for site in ordered for one in site.classes.tolist()}))
    parts = [_taking_part(site, settings.min_rows) for site in ordered]
    joint, own = _scales(settings, parts)
    mine = [np.unique(part.y.astype(str)).tolist() for part in parts]
    classes = len(words) or settings.given_classes or max(map(len, mine))
    layout = EllipseLayout(parts[0].shape[1], len(parts) if settings.apart else 1, classes, settings.n_components)
    written, slots = [], []
    for at, (part, scale) in enumerate(zip(parts, own, strict=True)):
        first = classes * at if settings.apart else 0
        slots.append({word: first + (words.index(word) if words else i) for i, word in enumerate(mine[at])})
        places = {word: slot * settings.n_components for word, slot in slots[at].items()}
        V = vectors(part.X, settings, joint if scale is None else scale)
        full = settings.rows_per_column * layout.columns
        written.append(write_classes(V, part.y.astype(str), places, layout, settings, full))
    received = read_sum(fixed_sum(written, fraction_bits=SumGaussians.fraction_bits), layout)
    matched = match(received, layout, settings, seed)
    model = named(fit(received, matched, layout, settings, joint), settings, words, matched)
    local = {
        part.name: _learnt(settings, model, matched, part, scale, mapped)
        for part, scale, mapped in zip(parts, own, slots, strict=True)
    }
    if settings.mixed:
        sets = [frozenset(groups) for one in local.values() for groups in one["covers"].values()]
        for one in local.values():
            one["tree"] = [list(node) for node in joint_tree(sets)]
    return Plain(model, local)


def _taking_part(site: SiteData, min_rows: int) -> SiteData:
    """Return the rows of classes that are large enough to leave home."""
    words, counts = np.unique(site.y.astype(str), return_counts=True)
    return site.take(np.isin(site.y.astype(str), words[counts >= min_rows]))


def _scales(settings: EllipseSettings, parts: Sequence[SiteData]) -> tuple[Floats | None, list[Floats | None]]:
    """Return the joint scale and each site's own, where the settings want them."""
    own = [joint_map.column_scales(part.X) if settings.site_scale else None for part in parts]
    if not settings.joint_scale:
        return None, own
    total = fixed_sum(
        [joint_map.site_scale(part.X) for part in parts], fraction_bits=SumEllipseScales.fraction_bits
    )
    return joint_map.joint_scales(total, parts[0].shape[1]), own


def _learnt(
    settings: EllipseSettings,
    model: EllipseModel,
    matched: Matched,
    part: SiteData,
    scale: Floats | None,
    slots: dict[str, int],
) -> dict[str, Any]:
    """Return what a site has in the end."""
    place = {slot: at for at, slot in enumerate(matched.slots.tolist())}
    found = {word: place[slot] for word, slot in slots.items()}
    names = {word: int(matched.groups[at]) for word, at in found.items() if matched.groups[at] >= 0}
    local: dict[str, Any] = {"names": names}
    if not settings.shared:
        local["evidence"] = {word: matched.evidence[found[word]].told() for word in names}
    if scale is not None:
        local["scales"] = scale.tolist()
    if settings.mixed:
        bound = model.for_site({"names": {}, "scales": scale})
        called = bound.class_scores(part.X).argmax(axis=1)
        local["covers"] = settle(called, list(found), part.y.astype(str).tolist(), names, matched.number)
    local["unknown"] = sorted(set(found) - set(local.get("covers", names)))
    return local
