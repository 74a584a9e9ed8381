"""The privacy budget that a site keeps: charged before the first answer, capped, and noticed when it was touched."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from fedgeom import DP, Moments, PTopoFL
from fedgeom.deploy.answers import FORGOTTEN, NOT_READY, answer
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.budgets import BudgetStore, unaccounted_runs
from fedgeom.deploy.journal import CHARGED, Journal
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy, hash_terms, job_terms
from fedgeom.federation.privacy import Spent, spent_by
from fedgeom.federation.session import Session
from fedgeom.privacy.accounting import epsilon_of, rho_for
from fedgeom.protocols.join.messages import Hello, PublicKeys
from tests.deploy.making import NAMES, USUAL, ask_stewards, edit, set_policy
from tests.deploy.test_answering import FolderEngine

RUNS = [bytes([at]) * 32 for at in range(8)]
ONE = DP(epsilon=1, delta=1e-5, clip=2)


def job(epsilon: float = 1.0) -> Moments:
    return Moments(classes=("no", "yes"), min_sites=3, privacy=DP(epsilon=epsilon, delta=1e-5, clip=2))


def hello(run: bytes, method: Moments) -> bytes:
    rounds = len(method.site.all_sums(method))  # type: ignore[attr-defined]
    return pack(run, "moments", Hello(rounds=rounds, terms=method.terms(), participants=NAMES))


def said(reply: bytes) -> str:
    frame = unpack(reply)
    return decode(frame.body, Refusal).reason if frame.kind == Refusal.kind else frame.kind


@pytest.fixture
def anna(sites: dict[str, SiteFolder]) -> SiteFolder:
    return sites["anna"]


def store(site: SiteFolder, **policy: float) -> BudgetStore:
    return BudgetStore(site.path, site.identity(), Policy(**policy))  # type: ignore[arg-type]


def test_runs_compose_as_the_accountant_says_and_each_is_charged_once(anna: SiteFolder) -> None:
    kept = store(anna)
    assert kept.read() == ()
    assert kept.spent() == 0
    for run in (RUNS[0], RUNS[1], RUNS[0]):
        kept.charge(run, "moments", Spent.by(ONE))
    kept.charge(RUNS[2], "fedavg", Spent.by(DP(epsilon=0.5, delta=1e-6, clip=1, unit="site")))
    kept.charge(RUNS[3], "hulls", None)  # nothing to count
    assert [one.run for one in kept.read()] == [run.hex() for run in RUNS[:3]]
    rhos = [rho_for(1.0, 1e-5), rho_for(1.0, 1e-5), rho_for(0.5, 1e-6)]
    assert kept.spent() == pytest.approx(epsilon_of(rhos, 1e-5))
    assert store(anna, budget_delta=1e-9).spent() == pytest.approx(epsilon_of(rhos, 1e-9))


def test_the_cap_holds_for_all_runs_together(anna: SiteFolder) -> None:
    kept = store(anna, max_epsilon=1.5)
    kept.charge(RUNS[0], "moments", Spent.by(ONE))
    kept.charge(RUNS[1], "moments", Spent.by(ONE))  # two of 1 come to 1.44
    with pytest.raises(
        ProtocolError, match=r"come to epsilon = 1\.4\d, and this job would bring it to 1\.8\d; its"
    ):
        kept.charge(RUNS[2], "moments", Spent.by(ONE))
    kept.charge(RUNS[1], "moments", Spent.by(ONE))  # the same run again is no second one
    assert len(kept.read()) == 2
    store(anna).charge(RUNS[2], "moments", Spent.by(ONE))  # without a limit


def test_a_job_beyond_the_cap_is_refused_before_the_first_answer_and_costs_no_approval(anna: SiteFolder) -> None:
    ask_stewards(anna)
    edit(anna, "max_epsilon = 10.0 ", "max_epsilon = 1.2 ")
    method = job()
    terms = job_terms("moments", method.terms(), 0, NAMES)
    ApprovalStore(anna.path).pin(hash_terms(terms).hex(), days=1, runs=2, job=terms)
    assert said(answer(anna, hello(RUNS[0], method))) == PublicKeys.kind
    assert "privacy budget is spent" in said(answer(anna, hello(RUNS[1], method)))
    (approval,) = ApprovalStore(anna.path).read().approvals
    assert approval.used == (RUNS[0].hex(),)
    assert [one.run for one in store(anna).read()] == [RUNS[0].hex()]
    lines = Journal(anna.path).entries()
    assert [line.answer for line in lines if line.run == RUNS[1].hex()] == [Refusal.kind]
    assert not Journal(anna.path).has_answered(RUNS[1])
    assert [line.note for line in lines if line.question == CHARGED] == [
        "charged epsilon = 1, delta = 1e-05 per row"
    ]
    assert said(answer(anna, hello(RUNS[0], method))) == PublicKeys.kind  # the first goes on
    edit(anna, "max_epsilon = 1.2 ", "max_epsilon = 3 ")  # the steward thinks again
    assert said(answer(anna, hello(RUNS[1], method))) == PublicKeys.kind


def test_a_run_over_folders_is_charged_at_every_site_and_one_without_budget_is_missed(
    sites: dict[str, SiteFolder], coordinator: object
) -> None:
    roster = coordinator.roster()  # type: ignore[attr-defined]
    model, _ = Session(job(), RUNS[0], 0, roster).conduct(FolderEngine(sites))
    assert list(model.classes_) == ["no", "yes"]
    assert all(len(store(site).read()) == 1 for site in sites.values())
    edit(sites["carl"], "max_epsilon = 10.0 ", "max_epsilon = 1 ")
    with pytest.raises(TooFewSitesError, match=r"carl.*privacy budget is spent"):
        Session(job(), RUNS[1], 0, roster).conduct(FolderEngine(sites))
    assert len(store(sites["carl"]).read()) == 1


def test_a_private_descriptor_is_charged_and_the_training_beside_it_named(
    sites: dict[str, SiteFolder], coordinator: object
) -> None:
    roster = coordinator.roster()  # type: ignore[attr-defined]
    method = PTopoFL(n_rounds=1, epsilon=2.0, secure=False)
    spent = spent_by(method)
    assert spent is not None
    assert epsilon_of([spent.rho], 1e-5) == pytest.approx(
        2.0, rel=0.15
    )  # Balle and Wang's noise is less by some 7 %
    assert rho_for(2.0, 1e-5) < spent.rho
    for at, site in enumerate(sites.values()):
        set_policy(site, type(USUAL)(max_corner_share=1.0, secure_only=False, max_epsilon=2.5 if at else 10.0))
    Session(method, RUNS[0], 0, roster).conduct(FolderEngine(sites))
    charges = store(sites["anna"]).read()
    assert [(one.method, one.epsilon, one.note) for one in charges] == [("ptopofl", 2.0, "the descriptor")]
    assert unaccounted_runs(sites["anna"].path, charges) == [RUNS[0].hex()]
    with pytest.raises(TooFewSitesError, match="privacy budget is spent"):
        Session(method, RUNS[1], 0, roster).conduct(FolderEngine(sites))
    assert spent_by(PTopoFL()) is None


def test_runs_without_privacy_are_named_and_can_be_forbidden(
    sites: dict[str, SiteFolder], coordinator: object
) -> None:
    anna, roster = sites["anna"], coordinator.roster()  # type: ignore[attr-defined]
    Session(Moments(), RUNS[0], 0, roster).conduct(FolderEngine(sites))
    Session(job(), RUNS[1], 0, roster).conduct(FolderEngine(sites))
    assert unaccounted_runs(anna.path, store(anna).read()) == [RUNS[0].hex()]
    set_policy(anna, type(USUAL)(max_corner_share=1.0, require_privacy=True))
    plain = Moments()
    rounds = len(plain.site.all_sums(plain))  # type: ignore[attr-defined]
    asked = pack(RUNS[2], "moments", Hello(rounds=rounds, terms=plain.terms(), participants=NAMES))
    assert "require_privacy = true" in said(answer(anna, asked))


def spoil(path: Path, **changes: object) -> None:
    file = json.loads(path.read_text())
    file["charges"][0] |= changes
    path.write_text(json.dumps(file))


def drop_last(path: Path) -> None:
    file = json.loads(path.read_text())
    path.write_text(json.dumps(file | {"charges": file["charges"][:-1]}))


@pytest.mark.parametrize(
    ("touch", "words"),
    [
        (lambda kept: spoil(kept.path, rho=1e-9), "was changed: entry 1 is not as this site wrote it"),
        (lambda kept: spoil(kept.path, epsilon=0.1), "was changed: entry 1"),
        (lambda kept: spoil(kept.path, mac="00"), "was changed: entry 1"),
        (lambda kept: drop_last(kept.path), "lacks entries that were written"),
        (lambda kept: kept.path.unlink(), "is lost, though runs were charged to it"),
        (lambda kept: (kept.path.unlink(), kept.head.unlink()), "is lost, though runs were charged to it"),
        (lambda kept: kept.path.write_text("{"), "is damaged"),
        (lambda kept: kept.head.write_text("{}"), "is damaged"),
        (lambda kept: kept.head.unlink(), "lacks entries that were written, or"),
        (
            lambda kept: kept.head.write_text(kept.head.read_text().replace('"count":2', '"count":1')),
            "was changed",
        ),
    ],
)
def test_a_budget_that_was_touched_or_lost_stops_the_site_which_says_so(
    anna: SiteFolder, touch: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = store(anna)
    for run in RUNS[:2]:
        kept.charge(run, "moments", Spent.by(ONE))
    touch(kept)  # type: ignore[operator]
    with pytest.raises(InputError, match=words):
        kept.read()
    assert said(answer(anna, hello(RUNS[2], job()))) == NOT_READY  # others learn no more
    assert any(words in record.message for record in caplog.records)
    assert "fedgeom site budget --restart" in caplog.text


def test_both_files_cut_back_together_are_noticed_by_the_ledger(anna: SiteFolder) -> None:
    kept = store(anna)
    kept.charge(RUNS[0], "moments", Spent.by(ONE))
    before = kept.path.read_bytes(), kept.head.read_bytes()
    kept.charge(RUNS[1], "moments", Spent.by(ONE))
    kept.path.write_bytes(before[0])
    kept.head.write_bytes(before[1])
    with pytest.raises(InputError, match="lacks entries"):
        kept.read()


def test_a_crash_between_the_two_files_is_no_loss(anna: SiteFolder) -> None:
    kept = store(anna)
    kept.charge(RUNS[0], "moments", Spent.by(ONE))
    head = kept.head.read_bytes()
    kept.charge(RUNS[1], "moments", Spent.by(ONE))
    kept.head.write_bytes(head)
    assert len(kept.read()) == 2


def test_another_sites_budget_is_none_of_this_site(sites: dict[str, SiteFolder]) -> None:
    store(sites["anna"]).charge(RUNS[0], "moments", Spent.by(ONE))
    for file in ("budget.json", "budget.head"):
        (sites["bert"].path / file).write_bytes((sites["anna"].path / file).read_bytes())
    with pytest.raises(InputError, match="was changed"):
        store(sites["bert"]).read()


def test_the_count_can_be_begun_anew_and_says_so(anna: SiteFolder) -> None:
    kept = store(anna)
    for run in RUNS[:2]:
        kept.charge(run, "moments", Spent.by(ONE))
    kept.path.unlink()
    assert kept.restart() is None
    (note,) = kept.read()
    assert "what was spent before is not known" in note.note
    assert kept.spent() == 0
    kept.charge(RUNS[2], "moments", Spent.by(ONE))
    assert len(kept.read()) == 2
    assert kept.restart() is not None
    assert list(anna.path.glob("budget-*.json"))


def test_after_a_restart_files_cut_back_together_are_noticed_too(anna: SiteFolder) -> None:
    kept = store(anna)
    kept.charge(RUNS[0], "moments", Spent.by(ONE))
    kept.restart()
    before = kept.path.read_bytes(), kept.head.read_bytes()
    kept.charge(RUNS[1], "moments", Spent.by(ONE))
    assert kept.spent() == pytest.approx(1, rel=1e-4)
    kept.path.write_bytes(before[0])
    kept.head.write_bytes(before[1])
    with pytest.raises(InputError, match="lacks entries"):
        kept.read()
    notes = [entry.note for entry in Journal(anna.path).entries() if entry.question == CHARGED and not entry.run]
    assert notes == ["the count was begun anew: what was spent before is not known"]  # on record outside the file
    Journal(anna.path).check_rate_limit(RUNS[2], 3)  # and no run of the day


def test_clocks_that_are_put_back_lose_no_file_and_no_charge(anna: SiteFolder) -> None:
    times = iter([2e9, 2e9, 1e9, 1e9, 1e9, 1e9])
    kept = BudgetStore(anna.path, anna.identity(), Policy(), clock=lambda: next(times, 1e9))
    kept.charge(RUNS[0], "moments", Spent.by(ONE))
    kept.restart()
    for run in RUNS[1:3]:  # long before what was charged already, by the clock
        kept.charge(run, "moments", Spent.by(ONE))
    assert [one.run for one in kept.read() if one.run] == [run.hex() for run in RUNS[1:3]]
    kept.restart()
    kept.restart()
    assert len(list(anna.path.glob("budget-*.json"))) == 3


def test_a_cheap_charge_does_not_pay_for_a_dear_run_of_the_same_number(anna: SiteFolder) -> None:
    kept = store(anna)
    kept.charge(RUNS[0], "moments", Spent.by(DP(epsilon=0.1, clip=1)))
    for dear in (DP(epsilon=8, clip=1), DP(epsilon=0.1, delta=1e-3, clip=1), DP(epsilon=0.1, clip=1, unit="site")):
        with pytest.raises(ProtocolError, match=r"was charged on other terms before \(epsilon = 0\.1"):
            kept.charge(RUNS[0], "moments", Spent.by(dear))
        with pytest.raises(ProtocolError, match="other terms need a run of their own"):
            kept.check(RUNS[0], Spent.by(dear))
    assert len(kept.read()) == 1


def test_of_jobs_that_race_for_the_last_of_the_budget_one_gets_it(anna: SiteFolder) -> None:
    kept, barrier = store(anna, max_epsilon=1.2), threading.Barrier(6)
    told: list[str] = []

    def charge(run: bytes) -> None:
        barrier.wait()
        try:
            kept.charge(run, "moments", Spent.by(ONE))
            told.append("charged")
        except ProtocolError as error:
            told.append(str(error))

    rho_for(1.0, 1e-5)
    together = [threading.Thread(target=charge, args=(run,)) for run in RUNS[:6]]
    for one in together:
        one.start()
    for one in together:
        one.join()
    assert sorted("budget is spent" in one for one in told) == [False] + 5 * [True]
    assert len(kept.read()) == 1


def test_a_run_that_was_answered_and_forgotten_is_not_answered_with_new_noise(anna: SiteFolder) -> None:
    assert said(answer(anna, hello(RUNS[0], job()))) == PublicKeys.kind
    assert len(store(anna).read()) == 1  # charged, whatever becomes of the run
    for file in (anna.path / "memory").glob("*.bin"):
        file.unlink()
    assert said(answer(anna, hello(RUNS[0], job()))) == FORGOTTEN
    assert len(store(anna).read()) == 1


def test_a_site_that_dies_between_the_charge_and_its_answer_goes_on_with_the_same_run(
    anna: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Journal, run: bytes, kept: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "keep", die)
        with pytest.raises(KeyboardInterrupt):
            answer(anna, hello(RUNS[0], job()))
    assert len(store(anna).read()) == 1
    dear = said(answer(anna, hello(RUNS[0], job(epsilon=4.0))))
    assert "charged on other terms before" in dear
    assert said(answer(anna, hello(RUNS[0], job()))) == PublicKeys.kind
    assert len(store(anna).read()) == 1
