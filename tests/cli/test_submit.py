"""``fedgeom submit``: jobs, their display, and how they end."""

from __future__ import annotations

from fedgeom.cli.screen import console
from fedgeom.cli.submit import Display
from fedgeom.deploy import submit
from fedgeom.federation.coordinator import Event
from fedgeom.federation.record import read_status, write_status
from tests.cli.deploying import call


def test_submit_needs_a_coordinator_and_one_thing_to_do(here, made):
    (here / "study.toml").write_text('method = "hulls"\n')
    assert "either a federation file or --resume" in call("submit", code=2)
    assert "either" in call("submit", "study.toml", "--resume", "study-1", code=2)
    assert "coordinator start" in call("submit", "study.toml", "--folder", "c", code=2)
    assert "no job 'study-1'" in call("submit", "--resume", "study-1", "--folder", "c", code=2)


def test_submit(here, conducting):
    (here / "study.toml").write_text('method = "hulls"\nlabel = "type"\n')
    shown = call("submit", "study.toml", "--folder", "c")
    for piece in ("not used in a submitted job", "anna: joined", "bert: lost join: did not come", "public keys"):
        assert piece in shown
    assert "runs/study-1/model.safetensors" in shown.replace(" ", "")
    assert "warning: site 'bert' was lost" in shown.partition("record ")[2]
    assert "seconds 1.5" in shown
    assert "majority class" in shown
    assert "site by site" not in shown  # what a single site has stays there
    page = (here / "c" / "runs" / "study-1" / "report.html").read_text()
    assert "majority class" in page
    assert "finished already" in call("submit", "--resume", "study-1", "--folder", "c", code=2)


def test_submitting_what_was_rehearsed(here, conducting):
    table = "x,y,label\n" + "".join(f"{k},{k * k % 7},{'ab'[k % 2]}\n" for k in range(30))
    for name in ("one", "two", "three"):
        (here / f"{name}.csv").write_text(table)
    sites = "".join(f'[[sites]]\nfile = "{name}.csv"\n' for name in ("one", "two", "three"))
    (here / "study.toml").write_text(
        f'method = "moments"\nseed = 5\nlabel = "label"\n[parameters]\nspace = "euclidean"\n{sites}'
    )
    call("run", "study.toml", "--out", "runs/study")
    assert "wrote study-1.toml" in call("submit", "--from", "runs/study-1", "--folder", "c")
    written = (here / "study-1.toml").read_text()
    assert 'method = "moments"\nseed = 5\n' in written
    (here / "study-1.toml").write_text("changed")
    assert "is there already" in call("submit", "--from", "runs/study-1", "--folder", "c", code=2)


def test_submit_that_fails_says_how_to_go_on(here, conducting):
    conducting[:] = ["failed", "2 sites answered, 3 are needed"]
    (here / "study.toml").write_text('method = "hulls"\n')
    shown = call("submit", "study.toml", "--folder", "c", code=1)
    resume = "fedgeom submit --resume study-1 --folder c"
    for piece in ("failed: 2 sites answered", "coordinator.log", resume, "warning: site 'bert' was lost"):
        assert piece in shown
    conducting[:] = ["finished", ""]
    call("submit", "--resume", "c/runs/study-1", "--folder", "c")


def test_interrupting_leaves_a_folder_that_says_so(here, made, conducting, monkeypatch):
    def interrupt(*_, **__):
        write_status(made.path / "runs" / "study-1", "running", "")
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "follow", interrupt)
    (here / "study.toml").write_text('method = "hulls"\n')
    shown = call("submit", "study.toml", "--folder", "c", code=130)
    assert "to go on: fedgeom submit --resume study-1" in shown
    assert read_status(made.path / "runs" / "study-1").state == "interrupted"


def test_the_live_table():
    screen = console()
    board = submit.Board(("anna", "bert"))
    display = Display(screen, board)
    display(Event(3, "hulls.encode", "anna", "asked"))
    display(Event(3, "hulls.encode", "bert", "lost", "no [answer] within 9 s"))
    with screen.capture() as shown:
        screen.print(display._table())
    for piece in ("step 3", "answering", "masked hulls", "no [answer] within 9 s"):
        assert piece in shown.get()
    assert "waiting for approval" not in shown.get()
    display(Event(3, "join.hello", "anna", "waiting"))
    with screen.capture() as shown:
        screen.print(display._table())
    assert "step 3: waiting for approval at anna" in shown.get()
    assert board.waiting == ["anna"]
    display(None)
    assert board.lines["bert"].state == "expected"


def test_waiting_for_stewards_is_said_also_where_there_is_no_terminal(capsys):
    display = Display(console(), submit.Board(("anna", "ulm")))
    display(Event(1, "join.hello", "ulm", "waiting"))
    display(Event(1, "join.hello", "ulm", "waiting", "the site is not connected"))
    display(Event(1, "join.hello", "ulm", "answered"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines] == [
        "1 waiting for approval at ulm",
        "1 waiting for approval at ulm: the site is not connected",
        "1 ulm: answered join.hello",
    ]
