"""The picture of a run to look around in: classes, sites and layers can be switched on and off."""

from __future__ import annotations

from fedgeom.report import markup
from fedgeom.report.markup import escape
from fedgeom.report.scene import SIZE, Scene

MANY = 12
"""With more sites than this their switches are shown on demand."""


def explorer(scene: Scene) -> str:
    """Return the picture with its switches; without a script all is shown, and a table says the same in words."""
    half = SIZE / 2
    circle = f'cx="{half:.0f}" cy="{half:.0f}" r="{half:.0f}"'
    areas = "".join(
        f'<path class="region c{group}" data-class="{group}" data-layer="areas" d="{path}"/>'
        for group, path in scene.regions
    )
    if scene.disc:  # areas are found on a grid, whose squares stick out over the rim
        areas = f'<g class="rim">{areas}</g><circle class="edge" {circle}/>'
    parts = [
        areas,
        "".join(
            f'<path class="dots {_kind(one.group)}" data-class="{one.group}" data-site="{escape(one.site)}" '
            f'data-layer="rows" d="{one.path}"/>'
            for one in scene.dots
        ),
        "".join(
            f'<path class="{_weight(scene, one.site)} {_kind(one.group)}" data-class="{one.group}" '
            f'data-site="{escape(one.site)}" data-layer="{"joint" if _joint(scene, one.site) else "sent"}" '
            f'd="{one.path}"><title>{escape(one.title)}</title></path>'
            for one in scene.shapes
        ),
        "".join(
            f'<g class="number c{group}" data-class="{group}"><circle cx="{x:.0f}" cy="{y:.0f}" r="19"/>'
            f'<text x="{x:.0f}" y="{y:.0f}">{group}</text></g>'
            for group, x, y in scene.labels
        ),
    ]
    sent = sum(not _joint(scene, one.site) for one in scene.shapes)
    said = (
        f"{scene.title} with {sent} shapes of {len(scene.sites) or 'all'} sites and {len(scene.classes)} classes"
    )
    name = escape(f"{said}; the table below says the same")
    box = f"-4 -4 {SIZE + 8:.0f} {scene.tall + 8:.0f}"
    svg = f'<svg viewBox="{box}" role="img" aria-label="{name}">{"".join(parts)}</svg>'
    return (
        markup.paragraph(scene.note, "dim")
        + f'<div class="explorer"><figure>{svg}<figcaption aria-live="polite" class="dim said">'
        "Point at a shape to read what it is.</figcaption></figure>"
        f'<div class="switches" hidden>{_switches(scene)}</div></div>'
        + markup.details("The same as a table", _table(scene), twin=True)
    )


def _joint(scene: Scene, site: str) -> bool:
    """Say whether a shape is of all sites together beside shapes of single ones."""
    return site == "" and (bool(scene.sites) or not scene.disc)


def _weight(scene: Scene, site: str) -> str:
    return "shape joint" if site == "" and not scene.disc else "shape"


def _kind(group: int) -> str:
    return f"c{group}" if group >= 0 else "none"


def _switches(scene: Scene) -> str:
    classes = "".join(
        _switch("class", str(group), f'<i class="swatch c{group}"></i>{group} {escape(name)}')
        for group, name in scene.classes.items()
    )
    boxes = [_box("Classes", classes)]
    owners = sorted({one.site for one in [*scene.shapes, *scene.dots] if one.site})
    if owners:
        sites = "".join(_switch("site", name, escape(name)) for name in owners)
        inner = _box("Sites", sites)
        boxes.append(inner if len(owners) <= MANY else markup.details(f"{len(owners)} sites", inner))
    layers = {"sent": "what left the sites"} if any(not _joint(scene, one.site) for one in scene.shapes) else {}
    if any(_joint(scene, one.site) for one in scene.shapes):
        layers["joint"] = "joint classes"
    if scene.regions:
        layers["areas"] = "where the model decides" if scene.disc else "where classes meet"
    if scene.dots:
        layers["rows"] = "rows (they stayed)"
    if len(layers) > 1:
        boxes.append(_box("Layers", "".join(_switch("layer", key, escape(name)) for key, name in layers.items())))
    return "".join(boxes)


def _box(title: str, inner: str) -> str:
    buttons = '<button type="button" data-all="1">all</button> <button type="button" data-all="">none</button>'
    return f'<fieldset><legend>{title}</legend><div class="list">{inner}</div>{buttons}</fieldset>'


def _switch(kind: str, value: str, label: str) -> str:
    return f'<label><input type="checkbox" checked data-{kind}-switch="{escape(value)}"> {label}</label>'


def _table(scene: Scene) -> str:
    rows = [
        [str(one.group) if one.group >= 0 else "–", scene.classes.get(one.group, "several"), one.title]
        for one in sorted(scene.shapes, key=lambda one: (one.group, one.site))
    ]
    return markup.table(["class", "called", "shape"], rows, numbers=(0,))
