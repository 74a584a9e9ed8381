"""What Hulls computes, from all tables in one place: a second way to every run's result, without a conversation.

Hulls are rounded, grouped or called by their shared names, and told apart, without labels, codes or masks. The
mathematics is fedgeom's own; who asks whom, what sites keep and how they learn their names is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgeom import Hulls
from fedgeom.data.sites import SiteData
from fedgeom.federation.plain import Plain
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import hulls_by_name, rounded_hulls
from fedgeom.methods.hulls.matching import group_evidence
from fedgeom.methods.hulls.method import joint_points, joint_reach


def pooled(method: Hulls, sites: Sequence[SiteData], seed: int) -> Plain:
    """Compute what a run yields when no site is lost, from the sites' hulls themselves."""
    ordered = sorted(sites, key=lambda site: site.name)
    tables, mapped = joint_points(method, ordered)
    both = list(zip(tables, ordered, strict=True))
    levels = joint_reach(method, tables, ordered)
    words = method.classes or tuple(sorted({str(one) for site in ordered for one in site.classes.tolist()}))
    plan = method._plan(levels, len(ordered), len(words) if method.shared else 0)
    hulls_of = [hulls_by_name(points, site.y, method.trim, c=plan.grid.c) for points, site in both]
    found = [rounded_hulls(hulls, plan.grid) for hulls in hulls_of]
    if method.shared:
        corners = [np.unique(np.concatenate([one[word] for one in found if word in one])) for word in words]
        names = [{word: words.index(word) for word in hulls} for hulls in found]
        model = method._fit_words(corners, words, plan, mapped)
        return Plain(model, {site.name: {"names": own} for site, own in zip(ordered, names, strict=True)})
    bins = [one for hulls in found for one in hulls.values()]
    owners = np.repeat(np.arange(len(found)), [len(hulls) for hulls in found])
    model, members = method._fit(bins, owners, plan, mapped, seed)
    evidence = group_evidence([plan.grid.center(one) for one in bins], owners, members, c=method.curvature)
    local: dict[str, dict[str, Any]] = {}
    for at, (site, hulls) in enumerate(zip(ordered, found, strict=True)):
        mine = np.flatnonzero(owners == at).tolist()
        local[site.name] = {
            "names": {word: int(members[i]) for word, i in zip(hulls, mine, strict=True)},
            "unknown": [],
            "evidence": {word: evidence[i].told() for word, i in zip(hulls, mine, strict=True)},
        }
        if method.maps and not method.joint_scale:
            local[site.name]["scales"] = joint_map.column_scales(site.X).tolist()
    return Plain(model, local)
