"""The NATS engine against a real server: what happens when sites, lines, parts and servers come and go."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("nats", reason="NATS is not installed")
pytest.importorskip("nkeys", reason="NATS is not installed")

from fedgeom.deploy import certificates
from fedgeom.engines.answerer import AnswererDiedError
from fedgeom.engines.nats import engine as engine_module
from fedgeom.engines.nats.engine import NatsEngine, NatsLink
from fedgeom.engines.nats.link import (
    NOT_ADMITTED,
    PART,
    AnswerPart,
    AnswerReady,
    AskSite,
    AwaitAnswer,
    FetchPart,
    NoAnswer,
    NotKnown,
    PutPart,
    new_seed,
    read_reply,
    subject_of,
)
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Lost
from tests.deploy.deployment import Proxy
from tests.engines.nats.carrying import Server, bare_client, running_server, running_site
from tests.waiting import HANG_SECONDS, until

LONG = 5 * PART + 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path, ("anna", "bert")) as made:
        yield made


@pytest.fixture
def link(server: Server) -> Iterator[NatsLink]:
    with NatsLink(server.endpoint("coordinator")) as made:
        until(lambda: not made.trouble)
        yield made


def echo(name: str, question: bytes) -> bytes:
    return name.encode() + b":" + question


def engine(link: NatsLink, *names: str, deadline: float = HANG_SECONDS, grace: float = HANG_SECONDS) -> NatsEngine:
    return NatsEngine(link, names, deadline=deadline, grace=grace)


def test_who_is_not_connected_is_lost_after_its_time_and_the_others_answer(server: Server, link: NatsLink) -> None:
    with running_site(server, "anna", echo):
        until(lambda: link.look(["anna", "bert"]))
        assert set(link.look(["anna", "bert"])) == {"anna"}
        found = dict(engine(link, "anna", "bert", grace=1.0).deliver({"anna": b"1", "bert": b"1"}))
    assert found == {"anna": b"anna:1", "bert": Lost("the site is not connected")}


def test_a_site_that_comes_late_is_asked_when_it_comes(server: Server, link: NatsLink) -> None:
    with ExitStack() as stack:
        late = threading.Timer(1.0, lambda: stack.enter_context(running_site(server, "anna", echo)))
        late.start()
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"anna:1"}


def test_a_site_that_is_started_anew_while_it_answers_is_asked_again(server: Server, link: NatsLink) -> None:
    begun = threading.Event()
    over = threading.Event()

    def hang(name: str, question: bytes) -> bytes:
        begun.set()
        over.wait()
        return b"too late"

    with ExitStack() as stack:
        stack.callback(over.set)
        first = stack.enter_context(ExitStack())
        first.enter_context(running_site(server, "anna", hang))

        def replace() -> None:
            begun.wait()
            first.close()
            stack.enter_context(running_site(server, "anna", echo))

        threading.Thread(target=replace).start()
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"anna:1"}


def test_a_slow_answer_is_waited_for_and_worked_on_once(
    server: Server, link: NatsLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer comes once the site was asked for it anew, the second once nobody waits for it any more."""
    monkeypatch.setattr("fedgeom.engines.nats.site.HOLD", 0.2)
    asked: list[bytes] = []
    done = threading.Event()
    request = NatsLink.request

    async def finish_when_asked_again(self: NatsLink, name: str, message: object, seconds: float) -> object:
        if isinstance(message, AwaitAnswer) and asked == [b"1"]:
            done.set()
        return await request(self, name, message, seconds)  # type: ignore[arg-type]

    def slow(name: str, question: bytes) -> bytes:
        asked.append(question)
        done.wait()
        return b"done"

    monkeypatch.setattr(NatsLink, "request", finish_when_asked_again)
    with running_site(server, "anna", slow):
        until(lambda: link.look(["anna"]))
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"done"}
        done.clear()
        late = dict(engine(link, "anna", deadline=0.5).deliver({"anna": b"2"}))
        until(lambda: len(asked) == 2)
        done.set()
    assert late == {"anna": Lost("no answer within 0.5 s")}
    assert asked == [b"1", b"2"]


def test_a_process_that_dies_of_a_question_is_tried_again_a_few_times(
    server: Server, link: NatsLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_AGAIN", 0.05)
    asked: list[bytes] = []

    def die(name: str, question: bytes) -> bytes:
        asked.append(question)
        if question == b"always" or len(asked) < 3:
            raise AnswererDiedError("the process that answered has died")
        return b"survived"

    with running_site(server, "anna", die, guarded=False):
        until(lambda: link.look(["anna"]))
        assert dict(engine(link, "anna").deliver({"anna": b"twice"})) == {"anna": b"survived"}
        assert len(asked) == 3
        lost = dict(engine(link, "anna").deliver({"anna": b"always"}))["anna"]
    assert isinstance(lost, Lost)
    assert "has died" in lost.reason
    assert asked.count(b"always") == engine_module.MOST_TIMES


def test_a_server_that_is_killed_and_started_again_costs_no_answer(server: Server, link: NatsLink) -> None:
    asked: list[bytes] = []
    begun = threading.Event()
    killed = threading.Event()

    def slow(name: str, question: bytes) -> bytes:
        asked.append(question)
        begun.set()
        killed.wait()
        return question

    def restart() -> None:
        begun.wait()
        server.stop()
        killed.set()
        server.start()

    with running_site(server, "anna", slow):
        until(lambda: link.look(["anna"]))
        restarting = threading.Thread(target=restart)
        restarting.start()
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"1"}
        restarting.join()
    assert asked == [b"1"]  # the answer was there when both were connected again


def test_a_line_that_is_cut_in_a_long_answer_is_gone_on_with_when_it_is_mended(
    server: Server, link: NatsLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is mended once a part did not come; what has arrived by then, and later, is not asked for again."""
    monkeypatch.setattr(engine_module, "PART_SECONDS", 2.0)
    monkeypatch.setattr(engine_module, "SILENT", 2.0)
    line = Proxy(server.port)
    fetched: list[int] = []
    arrived: list[int] = []
    again: list[int] = []
    whole = bytes(range(256)) * (20 * PART // 256)
    request = NatsLink.request

    async def count(self: NatsLink, name: str, message: object, seconds: float) -> object:
        if isinstance(message, FetchPart):
            again.extend(at for at in arrived if at == message.at)
            fetched.append(message.at)
        try:
            reply = await request(self, name, message, seconds)  # type: ignore[arg-type]
        except TimeoutError:
            line.mend()
            raise
        if isinstance(message, FetchPart) and isinstance(reply, AnswerPart):
            arrived.append(message.at)
            if len(arrived) == 6:
                line.cut()
        return reply

    monkeypatch.setattr(NatsLink, "request", count)
    with running_site(server, "anna", lambda name, question: whole, port=line.port):
        until(lambda: link.look(["anna"]))
        answer = dict(engine(link, "anna").deliver({"anna": b"1"}))["anna"]
    line.close()
    assert not isinstance(answer, Lost)
    assert bytes(answer) == whole
    assert sorted(arrived) == list(range(0, len(whole), PART))
    assert len(fetched) > len(arrived)  # the line was cut while parts were on their way
    assert again == []


def run_sites(server: Server, names: Sequence[str], size: int) -> None:
    """Run sites with long answers, in a process of their own."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(running_site(server, name, lambda name, question: bytes(size)))
        time.sleep(3600)


def test_long_answers_of_many_sites_wait_at_the_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a few answers are here at once, counted from their first part until they are taken."""
    names = [f"site-{k}" for k in range(8)]
    size = 6 * PART
    asked: set[str] = set()
    held: set[str] = set()
    most = 0
    request = NatsLink.request

    async def count(self: NatsLink, name: str, message: object, seconds: float) -> object:
        nonlocal most
        if isinstance(message, FetchPart):
            asked.add(name)
            held.add(name)
            most = max(most, len(held))
        return await request(self, name, message, seconds)  # type: ignore[arg-type]

    monkeypatch.setattr(NatsLink, "request", count)
    with running_server(tmp_path, names) as server:
        sites = multiprocessing.get_context("fork").Process(
            target=run_sites, args=(server, names, size), daemon=True
        )
        sites.start()
        try:
            with NatsLink(server.endpoint("coordinator")) as link:
                until(lambda: len(link.look(names)) == len(names))
                for name, answer in engine(link, *names).deliver(dict.fromkeys(names, b"long")):
                    assert not isinstance(answer, Lost)
                    assert len(answer) == size
                    time.sleep(0.2)  # a coordinator that is slow to take them
                    held.discard(name)
        finally:
            sites.kill()
            sites.join()
    assert asked == set(names)  # each answer came in parts
    assert most <= engine_module.LARGE_AT_ONCE


def test_sites_may_hear_their_own_subject_and_reply_nothing_else(server: Server, link: NatsLink) -> None:
    """Whatever another site tries with its own key is refused by the server."""
    heard: list[bytes] = []
    refused: list[str] = []

    async def try_all() -> None:
        async def error(told: Exception) -> None:
            refused.append(str(told))

        async def hear(message: object) -> None:
            heard.append(message.data)  # type: ignore[attr-defined]

        client = await bare_client(server.endpoint("bert"), error_cb=error)
        for subject in (subject_of("anna"), "fedgeom.site.*", "_INBOX.>", ">", "$SYS.>"):
            await client.subscribe(subject, cb=hear)
            await client.flush()
        for subject in (subject_of("anna"), subject_of("bert"), "_INBOX.x", "$SYS.REQ.SERVER.PING"):
            await client.publish(subject, b"x")
            await client.flush()
        assert not client.is_closed
        await client.close()

    with running_site(server, "anna", echo):
        until(lambda: link.look(["anna"]))
        link.call(try_all())
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"anna:1"}
    assert heard == []
    assert sum("subscription" in told.lower() for told in refused) == 5
    assert sum("publish" in told.lower() for told in refused) == 4
    assert "Publish Violation" in server.log()


def test_a_strangers_key_is_refused_and_a_site_that_is_removed_and_admitted_again(
    server: Server, link: NatsLink
) -> None:
    server.seeds["carl"] = new_seed()
    with running_site(server, "carl", echo) as told, running_site(server, "anna", echo):
        until(lambda: NOT_ADMITTED in told)
        until(lambda: link.look(["anna"]))
        server.admitted.append("carl")
        server.reload()
        until(lambda: link.look(["carl"]))
        assert dict(engine(link, "anna", "carl").deliver({"anna": b"1", "carl": b"2"})) == {
            "anna": b"anna:1",
            "carl": b"carl:2",
        }
        told.clear()
        server.admitted.remove("carl")
        server.reload()
        until(lambda: NOT_ADMITTED in told)
        until(lambda: set(link.look(["anna", "carl"])) == {"anna"})


def test_a_foreign_authority_is_refused_by_the_site(server: Server, tmp_path: Path) -> None:
    mine = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "other").mkdir()
    certificates.make_authority(tmp_path / "other")
    (tmp_path / "ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    try:
        with running_site(server, "anna", echo) as told:
            until(lambda: any("certificate is foreign" in one for one in told))
    finally:
        (tmp_path / "ca.pem").write_bytes(mine)


def test_what_does_not_fit_a_question_is_refused_and_not_worked_on(server: Server, link: NatsLink) -> None:
    asked: list[bytes] = []

    def answer(name: str, question: bytes) -> bytes:
        asked.append(question)
        return bytes(LONG)

    number = bytes(16)
    with running_site(server, "anna", answer, largest=4 * PART):
        until(lambda: link.look(["anna"]))

        def send(message: object) -> object:
            return link.call(link.request("anna", message, HANG_SECONDS))  # type: ignore[arg-type]

        assert isinstance(send(AskSite(number, 3, bytes(32), b"abc")), NotKnown)  # another hash
        assert isinstance(send(AskSite(number, 2 * PART, bytes(32))), NotKnown)  # nothing of it has come
        assert isinstance(send(PutPart(number, 2 * PART, 7, b"abc")), NoAnswer)
        assert isinstance(send(PutPart(number, PART, 0, b"abc")), NoAnswer)
        assert isinstance(send(FetchPart(number, 0)), NotKnown)
        too_long = send(PutPart(bytes(15) + b"1", 5 * PART, 0, bytes(PART)))
        assert isinstance(too_long, NoAnswer)
        assert "the site's policy allows 4,194,304" in too_long.reason
        lost = dict(engine(link, "anna").deliver({"anna": bytes(5 * PART)}))["anna"]
        assert isinstance(lost, Lost)
        assert "policy allows" in lost.reason
        assert asked == []
        assert len(dict(engine(link, "anna").deliver({"anna": b"good"}))["anna"]) == LONG  # type: ignore[arg-type]


def test_what_is_no_message_is_refused(server: Server, link: NatsLink) -> None:
    async def send(data: bytes) -> object:
        got = await link.client.request(subject_of("anna"), data, timeout=HANG_SECONDS)
        return read_reply(got.data)

    with running_site(server, "anna", echo):
        until(lambda: link.look(["anna"]))
        for data in (b"", b"\xc1", b"\x93\xa3ask", b"x" * 1000):
            assert isinstance(link.call(send(data)), NoAnswer)
        assert dict(engine(link, "anna").deliver({"anna": b"1"})) == {"anna": b"anna:1"}


def test_an_answer_that_is_not_the_one_that_was_announced_is_not_used(
    server: Server, link: NatsLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = NatsLink.request

    async def spoil(self: NatsLink, name: str, message: object, seconds: float) -> object:
        reply = await request(self, name, message, seconds)  # type: ignore[arg-type]
        return AnswerReady(reply.size, bytes(32), reply.body) if isinstance(reply, AnswerReady) else reply

    monkeypatch.setattr(NatsLink, "request", spoil)
    with running_site(server, "anna", echo):
        until(lambda: link.look(["anna"]))
        lost = dict(engine(link, "anna").deliver({"anna": b"1"}))["anna"]
    assert lost == Lost("the answer that arrived is not the one that the site gave")


def test_who_is_no_site_cannot_be_asked(link: NatsLink) -> None:
    with pytest.raises(InputError, match="there are no sites zoe"):
        dict(engine(link, "anna").deliver({"zoe": b""}))
