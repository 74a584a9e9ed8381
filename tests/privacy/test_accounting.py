"""What noise costs, against the formulas and against the accountant itself."""

from __future__ import annotations

import math

import pytest

from fedgeom.errors import InputError
from fedgeom.methods.ptopofl.private_descriptors import gaussian_delta
from fedgeom.privacy import accounting
from fedgeom.privacy.accounting import check_installed, epsilon_of, membership_bound, rho_for


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_rho_is_the_largest_that_keeps_the_promise(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert epsilon_of([rho], delta) <= epsilon < epsilon_of([rho * 1.001], delta)
    # The exact curve of Gaussian noise (Balle and Wang 2018) must lie below what concentrated privacy promises.
    assert gaussian_delta(1 / math.sqrt(2 * rho), 1.0, epsilon) <= delta


def test_runs_compose_as_the_accountant_composes_them() -> None:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    rhos = [0.01, 0.02, 0.3, 0.0]
    accountant = RdpAccountant(accounting.ORDERS)
    for rho in rhos[:3]:
        accountant.compose(dp_accounting.ZCDpEvent(rho))
    assert epsilon_of(rhos, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5))
    gaussian = RdpAccountant(accounting.ORDERS)
    for rho in rhos[:3]:
        gaussian.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    assert epsilon_of(rhos, 1e-5) == pytest.approx(gaussian.get_epsilon(1e-5), rel=1e-6)
    assert epsilon_of([], 1e-5) == 0.0


def test_two_runs_cost_less_than_the_sum_and_more_than_one() -> None:
    one = rho_for(1.0, 1e-5)
    assert 1.0 < epsilon_of([one, one], 1e-5) < 2.0


def test_a_missing_accountant_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'fedgeom\[privacy\]'"):
        check_installed()


def test_the_bound_on_guessing() -> None:
    assert membership_bound(0.0, 0.0) == 0.0
    assert membership_bound(1.0, 0.0) == pytest.approx(math.tanh(0.5))
    assert membership_bound(math.inf, 1e-5) == 1.0
