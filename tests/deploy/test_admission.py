"""What a deployed site answers: nothing but that it waits, until its steward has approved these very terms."""

from __future__ import annotations

import sys

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.crypto.keys import verify
from fedgeom.deploy import answers
from fedgeom.deploy.answers import answer, read_data
from fedgeom.deploy.approvals import DAY, ApprovalStore, FolderApprovals
from fedgeom.deploy.federation_file import read_federation
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.nats_site import files_state
from fedgeom.deploy.preview import preview, proposed_terms
from fedgeom.deploy.site import file_refusals, file_report
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Refusal, Waiting, decode, pack, unpack
from fedgeom.federation.policy import REFUSED, REVOKED, NotApprovedError, RevokedError, hash_terms, job_terms
from fedgeom.federation.session import Session
from fedgeom.protocols.join.messages import Hello, PublicKeys
from fedgeom.protocols.site import SecureMemory
from fedgeom.testing.rehearsal import Rehearsal
from tests.deploy.making import NAMES, ask_stewards, edit
from tests.deploy.test_answering import RUN, FolderEngine, reason

METHOD = fedgeom.Moments()
JOB = job_terms("moments", METHOD.terms(), 0, NAMES)


def ask(site):
    ask_stewards(site)
    return site


@pytest.fixture
def anna(sites):
    return ask(sites["anna"])


def hello(run=RUN, **changes):
    usual = {"rounds": len(METHOD.site.all_sums(METHOD)), "terms": METHOD.terms(), "participants": NAMES}
    return pack(run, "moments", Hello(**(usual | changes)))


def kind(reply):
    return unpack(reply).kind


def pin(site, job=JOB, **options):
    return ApprovalStore(site.path).pin(hash_terms(job).hex(), **({"days": 1, "runs": 1} | options))


def moved(site, seconds):
    """The site's approvals, some time later."""
    store = ApprovalStore(site.path)
    return FolderApprovals(site, ApprovalStore(site.path, clock=lambda: store.clock() + seconds))


# --- the law ---


@pytest.mark.parametrize("method", [METHOD, fedgeom.FedAvg(n_rounds=1, secure=False), fedgeom.Hulls(epsilon=0.05)])
def test_an_unapproved_site_sends_nothing_but_that_it_waits_whatever_it_is_asked(method, sites, anna, monkeypatch):
    """Every question of an honest run; not even the file with the data is opened, and nothing is remembered."""
    tables = [read_data(site) for site in sites.values()]
    held = Rehearsal(method, tables, run=RUN).conduct()
    monkeypatch.setattr(answers, "read_data", lambda folder: pytest.fail("the data were looked at"))
    for one in held.exchanges:
        if one.site == "anna":
            reply = answer(anna, one.request)
            if one.frame.kind == "join.hello":
                assert kind(reply) == Waiting.kind
            else:
                assert "was asked before it was invited" in reason(reply)
            assert not Journal(anna.path).newest(RUN).memory
    pinned = [entry.answer for entry in Journal(anna.path).entries() if entry.answer != Refusal.kind]
    assert pinned == [Waiting.kind]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"participants": ("anna", "bert")},
        {"participants": (*NAMES, "dora")},
        {"terms": METHOD.terms() | {"min_sites": 3}},
        {"terms": {}},
        {"table": "other"},
    ],
)
def test_an_approval_covers_these_terms_and_no_others(anna, changes):
    pin(anna, runs=100)
    assert kind(answer(anna, hello(**changes))) == Waiting.kind
    assert kind(answer(anna, hello(bytes(32)))) == PublicKeys.kind


def test_an_approval_does_not_cover_another_method(anna):
    pin(anna, runs=100)
    other = fedgeom.FedAvg(n_rounds=1)
    assert kind(answer(anna, pack(RUN, "fedavg", Hello(rounds=2, terms=other.terms(), participants=NAMES)))) == (
        Waiting.kind
    )


def add_table(site, name, by=1.0):
    """A second table at a site: the first one's rows, moved."""
    first = read_data(site)
    np.savez(site.path / f"{name}.npz", X=first.X * by, y=first.y)
    with site.config_file.open("a") as file:
        file.write(f'\n[tables.{name}]\nfile = "{name}.npz"\nlabel = "y"\n')


def test_a_job_is_about_the_table_that_its_terms_name(sites, coordinator, tmp_path):
    """The steward approves one table, and of the site's others nothing is read."""
    file = tmp_path / "study.toml"
    file.write_text('method = "moments"\ntable = "other"\n[parameters]\nspace = "euclidean"\n')
    for site in sites.values():
        assert [one for one in file_refusals(site, read_federation(file)) if "tables.other" in one]
        add_table(ask(site), "other", 0.5)
        edit(site, f'file = "{site.config().file}"', 'file = "gone.npz"')
        assert not file_refusals(site, read_federation(file))
        assert preview(site, file).refusals == []
    job = create_job(coordinator, file)
    assert job.terms().table == "other"
    assert hash_terms(job.terms()) != hash_terms(msgspec.structs.replace(job.terms(), table=""))
    for site in sites.values():
        pin(site, job.terms())
        assert file_report(site, file).ready
    session = Session(job.method(), RUN, 0, coordinator.roster(), participants=job.names, table=job.file.table)
    model, conversation = session.conduct(FolderEngine(sites))
    assert not conversation.lost
    moved = [read_data(site, table="other") for site in sites.values()]
    assert model.to_bytes() == fedgeom.run(job.method(), moved).model.to_bytes()


def test_a_table_that_the_site_has_not_got_is_told_at_the_site(anna):
    pin(anna, msgspec.structs.replace(JOB, table="other"))
    said = reason(answer(anna, hello(table="other")))
    assert "other" not in said
    assert "site.toml has none" in Journal(anna.path).entries()[-1].note


def test_who_edits_another_table_gets_a_new_process(anna):
    add_table(anna, "other")
    before = files_state(anna)
    np.savez(anna.path / "other.npz", X=np.zeros((2, 2)), y=["a", "b"])
    assert files_state(anna) != before


def test_preview_submit_and_what_the_sites_sign_have_one_hash(sites, coordinator, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('method = "moments"\nseed = 11\n[parameters]\nmin_sites = 3\n')
    terms = preview(sites["anna"], file).terms
    assert terms == proposed_terms(sites["anna"], file)
    job = create_job(coordinator, file)
    assert job.terms() == terms
    for site in sites.values():
        pin(ask(site), terms)
    session = Session(job.method(), RUN, 11, coordinator.roster(), participants=job.names)
    _, conversation = session.conduct(engine := FolderEngine(sites))
    assert not conversation.lost
    for name, site in sites.items():
        memory = msgspec.msgpack.decode(Journal(site.path).newest(RUN).memory, type=SecureMemory)
        assert memory.approved == memory.joining.terms_hash == hash_terms(terms)
        keys = memory.joining.cohort[name]
        verify(coordinator.roster()[name], keys.signature, "keys", *keys.statement(RUN, name, hash_terms(terms)),
               signer=name)  # fmt: skip
    assert engine.names == NAMES


def test_the_terms_name_all_who_may_take_part_also_where_not_all_come(sites, coordinator):
    terms = job_terms("moments", METHOD.terms(), 0, [*NAMES, "dora"])
    for site in sites.values():
        pin(ask(site), terms)
    session = Session(METHOD, RUN, 0, coordinator.roster(), participants=terms.participants)
    _, conversation = session.conduct(FolderEngine(sites))
    assert not conversation.lost
    with pytest.raises(TooFewSitesError, match="has not approved the job"):
        Session(METHOD, b"n" * 32, 0, coordinator.roster()).conduct(FolderEngine(sites))  # other terms: only three


# --- refusing ---


def test_a_refused_job_is_told_so_and_asked_about_no_more(anna):
    assert kind(answer(anna, hello())) == Waiting.kind
    ApprovalStore(anna.path).refuse(hash_terms(JOB).hex())
    assert reason(answer(anna, hello())) == REFUSED
    assert reason(answer(anna, hello(b"n" * 32))) == REFUSED  # submitted anew on the same terms
    assert ApprovalStore(anna.path).read().waiting == ()
    pin(anna)
    assert kind(answer(anna, hello(b"m" * 32))) == PublicKeys.kind


def test_a_rule_lets_no_job_in_that_was_refused(anna):
    answer(anna, hello())
    ApprovalStore(anna.path).refuse(hash_terms(JOB).hex())
    settings = anna.path / "site.toml"
    settings.write_text(settings.read_text().replace('approve = "ask"', 'approve = "any"'))
    assert reason(answer(anna, hello(b"n" * 32))) == REFUSED


# --- runs ---


def test_runs_are_counted_and_the_same_run_asked_again_is_the_same(anna):
    pin(anna, runs=2)
    for _ in range(3):
        for run in (b"1" * 32, b"2" * 32):
            assert kind(answer(anna, hello(run))) == PublicKeys.kind
    assert kind(answer(anna, hello(b"3" * 32))) == Waiting.kind
    (one,) = ApprovalStore(anna.path).read().approvals
    assert one.used == ((b"1" * 32).hex(), (b"2" * 32).hex())


def test_an_expired_approval_lets_running_jobs_go_on_and_no_new_one_begin(anna):
    pin(anna, runs=2)
    moved(anna, 0).admit(RUN, JOB)
    late = moved(anna, 2 * DAY)
    late.check(RUN, "moments", hash_terms(JOB))
    late.admit(RUN, JOB)
    with pytest.raises(NotApprovedError):
        late.admit(b"n" * 32, JOB)


def test_revoked_is_final_for_its_runs_and_a_new_approval_is_for_new_ones(anna):
    pin(anna, runs=2)
    assert kind(answer(anna, hello())) == PublicKeys.kind
    ApprovalStore(anna.path).revoke(hash_terms(JOB).hex())
    pin(anna)
    for _ in range(2):
        assert reason(answer(anna, hello())) == REVOKED
    left = msgspec.msgpack.decode(Journal(anna.path).newest(RUN).memory, type=SecureMemory)
    assert left == SecureMemory(run=RUN, method=JOB.method, left=True, approved=hash_terms(JOB))  # no key is kept
    notes = [entry.note for entry in Journal(anna.path).entries() if entry.note]
    assert REVOKED in notes[0]
    approvals = FolderApprovals.of(anna)
    for call in (lambda: approvals.admit(RUN, JOB), lambda: approvals.check(RUN, "moments", hash_terms(JOB))):
        with pytest.raises(RevokedError, match=REVOKED):
            call()
    assert kind(answer(anna, hello(b"n" * 32))) == PublicKeys.kind


def test_a_run_whose_approval_vanished_is_not_answered(anna):
    pin(anna)
    answer(anna, hello())
    ApprovalStore(anna.path).path.unlink()
    assert "no longer known at the site" in reason(answer(anna, hello()))


def test_a_damaged_file_stops_the_site_and_what_is_wrong_stays_there(anna):
    pin(anna)
    answer(anna, hello())
    store = ApprovalStore(anna.path)
    good = store.path.read_bytes()
    store.path.write_bytes(b"{")
    assert reason(answer(anna, hello())) == answers.NOT_READY
    assert "approvals.json is damaged" in Journal(anna.path).entries()[-1].note
    store.path.write_bytes(good)
    assert kind(answer(anna, hello())) == PublicKeys.kind  # mended; the site had not left


# --- rules of site.toml ---


def test_any_job_is_let_in_noted_and_can_be_revoked(sites):
    anna = sites["anna"]
    assert kind(answer(anna, hello())) == PublicKeys.kind
    (one,) = ApprovalStore(anna.path).read().approvals
    assert (one.rule, one.used, one.job) == ("any", (RUN.hex(),), JOB)
    ApprovalStore(anna.path).revoke(one.hash)
    assert reason(answer(anna, hello())) == REVOKED
    assert reason(answer(anna, hello(b"n" * 32))) == REVOKED  # a rule does not overrule the steward
    assert kind(answer(anna, hello(b"o" * 32, seed=1))) == PublicKeys.kind
    pin(anna)
    assert kind(answer(anna, hello(b"p" * 32))) == PublicKeys.kind


def test_a_job_that_a_rule_let_in_goes_on_when_the_rule_is_gone_and_admits_no_other(sites):
    anna = sites["anna"]
    answer(anna, hello())
    ask(anna)
    assert kind(answer(anna, hello())) == PublicKeys.kind
    assert kind(answer(anna, hello(b"n" * 32))) == Waiting.kind


def test_allow_listed_methods(sites):
    anna = sites["anna"]
    edit(anna, 'approve = "any" ', 'approve = "allow-listed methods" ')
    edit(anna, "methods = []", 'methods = ["moments"]')
    assert kind(answer(anna, hello(seed=5))) == PublicKeys.kind
    assert "does not take part in method 'hulls'" in reason(
        answer(anna, pack(bytes(32), "hulls", Hello(rounds=0)))
    )


@pytest.mark.parametrize(("rule", "refused"), [("any", False), ("ask", True)])
def test_a_method_whose_sites_never_join_runs_only_where_any_job_does(sites, rule, refused):
    edit(sites["anna"], 'approve = "any" ', f'approve = "{rule}" ')
    approvals = FolderApprovals.of(sites["anna"])
    if refused:
        with pytest.raises(ProtocolError, match="never join can run only where"):
            approvals.check(RUN, "counting", b"")
    else:
        approvals.check(RUN, "counting", b"")


# --- the notice ---


def test_the_steward_is_told_once_per_job_with_the_command_to_approve(anna, capsys):
    for run in (RUN, RUN, b"n" * 32):
        assert kind(answer(anna, hello(run))) == Waiting.kind
    (entry,) = Journal(anna.path).entries()
    assert (entry.question, entry.answer, entry.reveals) == ("join.hello", Waiting.kind, Waiting.reveals)
    command = f"fedgeom site approve {hash_terms(JOB).hex()} --folder {anna.path}"
    assert (
        f"a job waits for your approval: moments with anna, bert, carl; to see and approve it: {command}"
        in entry.note
    )
    assert capsys.readouterr().err.count(command) == 1
    assert not entry.counts  # it is no run of the day
    assert not list((anna.path / "memory").glob("*.bin"))
    answer(anna, hello(seed=1))
    assert len(Journal(anna.path).entries()) == 2


def test_names_from_elsewhere_cannot_rule_the_stewards_terminal(anna, capsys):
    answer(anna, hello(participants=("\x1b[2Jgone", *NAMES)))
    assert "not a valid 'join.hello' message" in Journal(anna.path).entries()[0].note
    answer(anna, hello(participants=tuple(sorted([*NAMES, *(f"s{k:03}" for k in range(50))]))))
    assert "\x1b" not in capsys.readouterr().err + "".join(one.note for one in Journal(anna.path).entries())
    assert "s016, …;" in Journal(anna.path).entries()[1].note  # so many are named, and no more


def notify(anna, tmp_path, code):
    script = tmp_path / "notice.py"
    script.write_text(code)
    edit(anna, "# notice = ", f"notice = '{sys.executable} {script} \"two words\" $HOME;true'\n# ")


def test_the_notice_is_run_without_a_shell_and_once(anna, tmp_path):
    notify(
        anna,
        tmp_path,
        "import os, sys\nwith open('told', 'a') as file:\n"
        "    print(*sys.argv[1:], *(os.environ['FEDGEOM_' + name] for name in ('TERMS', 'METHOD', 'RUN', 'SITE')), "
        "sep='|', file=file)",
    )
    for _ in range(2):
        answer(anna, hello())
    words = ("two words", "$HOME;true", hash_terms(JOB).hex(), "moments", RUN.hex(), str(anna.path))
    assert (anna.path / "told").read_text() == "|".join(words) + "\n"


@pytest.mark.parametrize("way", ["fails", "is missing", "cannot be read", "hangs"])
def test_a_notice_that_fails_is_logged_and_the_site_still_says_that_it_waits(anna, tmp_path, way, monkeypatch):
    if way == "fails":
        notify(anna, tmp_path, "raise SystemExit(3)")
    elif way == "hangs":
        monkeypatch.setattr("fedgeom.deploy.approvals.NOTICE_SECONDS", 0.2)
        notify(anna, tmp_path, "import time\ntime.sleep(600)")
    else:
        text = {"is missing": '"no-such-program"', "cannot be read": "'an \"open quote'"}[way]
        edit(anna, "# notice = ", f"notice = {text}\n# ")
    assert kind(answer(anna, hello())) == Waiting.kind
    assert "the notice to the steward failed" in Journal(anna.path).entries()[0].note


def test_a_waiting_job_does_not_count_as_a_run_of_the_day(anna):
    edit(anna, "runs_per_day = 20", "runs_per_day = 1")
    for run in (b"1" * 32, b"2" * 32):
        assert kind(answer(anna, hello(run))) == Waiting.kind
    pin(anna)
    assert kind(answer(anna, hello(b"2" * 32))) == PublicKeys.kind
    assert decode(unpack(answer(anna, hello(b"3" * 32))).body, Refusal).reason.endswith("its policy allows 1")
