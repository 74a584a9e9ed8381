"""A site's policy against the settings of a run: looked at before the site looks at its data.

What is said here depends on the terms and on the policy alone, so the coordinator may hear it. What depends on the data
(`min_rows_per_class`, `max_corner_share`, too few rows for `min_batch`) is looked at where the data are, and makes the
site leave the run without a word on why.
"""

from __future__ import annotations

from fedgeom.errors import ProtocolError
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of, spent_by
from fedgeom.federation.settings import Settings
from fedgeom.privacy.accounting import epsilon_of


def reasons_against(policy: Policy, settings: Settings) -> list[str]:
    """Return why a site with this policy refuses these settings, each naming the key of the policy and its value."""
    found = []
    shown = settings.shows_one_site()
    if policy.secure_only and shown:
        found.append(f"secure_only = true, but these settings show the coordinator {shown}")
    rounds = getattr(settings, "rounds", 0)
    if isinstance(rounds, int) and rounds > policy.max_rounds:
        found.append(f"max_rounds = {policy.max_rounds}, but rounds = {rounds}")
    steps = getattr(settings, "preparing", ())
    features = max([settings.most_features, *(step.most_features for step in steps)])
    if features > policy.max_features:
        found.append(f"max_features = {policy.max_features}, but there may be {features}")
    rows = settings.rows_per_step
    if rows is not None and rows < policy.min_batch:
        found.append(f"min_batch = {policy.min_batch}, but a gradient step looks at {rows} rows (batch = {rows})")
    return found + _about_privacy(policy, settings)


def _about_privacy(policy: Policy, settings: Settings) -> list[str]:
    """Return what a site's policy has against how a run protects rows; the budget of earlier runs is kept elsewhere."""
    privacy, costs, found = privacy_of(settings), spent_by(settings), []
    if privacy is None and policy.require_privacy:
        found.append("require_privacy = true, but these settings have no privacy")
    if privacy is not None and policy.colluders > privacy.colluders:
        found.append(f"colluders = {policy.colluders}, but privacy allows for {privacy.colluders}")
    if costs is not None and policy.max_epsilon:
        spent = epsilon_of([costs.rho], policy.budget_delta)
        if spent > policy.max_epsilon * (1 + 1e-6):
            at = f"{spent:.3g} at delta = {policy.budget_delta:g}"
            found.append(f"max_epsilon = {policy.max_epsilon:g}, but this run alone spends {at}")
    return found


def check_settings(policy: Policy, settings: Settings, *, site: str) -> None:
    """Raise `ProtocolError`, with all reasons, when a site's policy does not allow these settings."""
    reasons = reasons_against(policy, settings)
    if reasons:
        raise ProtocolError(f"the policy of {site!r} does not allow these terms: {'; '.join(reasons)}")
