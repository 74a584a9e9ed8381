"""`fedgeom run`: a federation file in, a folder with record, pictures and page out."""

from __future__ import annotations

import errno
import json
import signal

import numpy as np
import pytest

import fedgeom
from fedgeom.engines.run import run
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.policy import StrictPolicy
from fedgeom.federation.record import read_folder
from tests.cli.calling import call, write_csv, write_raw


def test_run(finished):
    folder, output = finished
    for piece in (
        "masked hulls",
        "each site alone",
        "majority class",
        "böse",
        "Hospital 1",
        "quantised hulls",
        "picture.png",
    ):
        assert piece in output
    assert "pooled rows, names as matched" in output  # words differ and nobody knows the truth
    assert "words that the run put into one class taken as one" in " ".join(output.split())
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "ledger.jsonl", "model.safetensors", "picture.png", "report.html"} <= names
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"
    found = read_evaluation(folder)
    assert found["own"].accuracy.value > 0.8
    assert [one.site for one in found.by_site] == list(json.loads((folder / "config.json").read_text())["sites"])


def test_without_a_method_the_one_that_fits_is_taken_and_it_is_said_why(finished):
    folder, output = finished
    why = "method hulls: 3 sites have 2 label names each, 6 different ones in all, 0 of them at several sites"
    assert why in output.replace("\n", " ")
    config = read_folder(folder)["config"]
    assert (config["method"], config["parameters"]["names"]) == ("hulls", "own")
    assert config["chosen"].startswith(why)
    assert why in (folder / "report.html").read_text()


def test_tables_are_looked_at_once(federation, tmp_path, monkeypatch):
    """They were read for the check and looked at once more by the run itself."""
    from fedgeom.engines import check

    looked = []
    facts = check.TableFacts.of.__func__
    monkeypatch.setattr(
        check.TableFacts, "of", classmethod(lambda cls, site: looked.append(site.name) or facts(cls, site))
    )
    call("run", federation / "study.toml", "--out", tmp_path / "study")
    assert [looked.count(f"Hospital {at}") for at in range(3)] == [1 + 2] * 3  # the model file's kinds: both parts
    model = fedgeom.load_model(tmp_path / "study-1")
    assert model.column_kinds == ("number",) * 30


def test_shared_names_are_never_matched(tmp_path):
    """Hulls over files with the same words yield classes that are these words, also where sites lack some."""
    for site, kept in zip(fedgeom.load_set("wine", n_sites=4).train, ("012", "012", "01", "2"), strict=True):
        names = {label: f"grower {at}" for at, label in enumerate(site.classes.tolist())}
        mine = site.relabel(names)
        mine = mine.take(np.isin(mine.y.astype(str), [f"grower {at}" for at in kept]))
        write_csv(tmp_path / f"{site.name}.csv", mine, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{name}"\n' for name in sorted(p.name for p in tmp_path.glob("*.csv")))
    text = f'method = "hulls"\nlabel = "kind"\nholdout = 0.3\n[parameters]\nembedding = "discriminant"\n{blocks}'
    (tmp_path / "w.toml").write_text(text)
    output = call("run", tmp_path / "w.toml", "--policy", "relaxed", "--out", tmp_path / "w")
    assert "so names are taken to be shared" in output.replace("\n", " ")
    assert "local names were matched" not in output
    assert "warning" not in output
    found = read_evaluation(tmp_path / "w-1")
    assert found["own"].accuracy.value > 0.9
    assert found.classes == ["grower 0", "grower 1", "grower 2"]
    model = fedgeom.load_model(tmp_path / "w-1")
    assert model.names == ("grower 0", "grower 1", "grower 2")


def test_words_that_are_neither_shared_nor_own_are_asked_about(federation, tmp_path):
    text = (
        (federation / "study.toml").read_text().replace('"h1.csv"', '"h0.csv"').replace('"h', f'"{federation}/h')
    )
    (tmp_path / "a.toml").write_text(text)
    said = call("run", tmp_path / "a.toml", "--out", tmp_path / "r", code=2).replace("\n", " ")
    assert 'Write names = "shared" at the top' in said


def test_run_again_never_overwrites(federation, finished):
    before = (finished[0] / "config.json").stat().st_mtime_ns
    output = call("run", federation / "study.toml", "--out", federation / "runs" / "study", "--seed", 5)
    assert "study-2" in output
    assert json.loads((federation / "runs" / "study-2" / "config.json").read_text())["seed"] == 5
    assert (finished[0] / "config.json").stat().st_mtime_ns == before


def test_another_method(federation, tmp_path):
    text = (federation / "study.toml").read_text().replace('embedding = "discriminant"', 'space = "euclidean"')
    for at in range(3):
        text = text.replace(f'"h{at}.csv"', f'"{federation}/h0.csv"')
    (tmp_path / "m.toml").write_text('method = "moments"\n' + text)
    output = call("run", tmp_path / "m.toml", "--out", tmp_path / "m")
    assert "federated" in output
    assert "picture" not in output
    assert "Verdict: On " in output
    assert "Nobody knows" not in output
    (tmp_path / "m.toml").write_text('method = "moments"\n' + text.replace("holdout = 0.3", ""))
    untested = " ".join(call("run", tmp_path / "m.toml", "--out", tmp_path / "m").split())
    assert (
        "Verdict: Nobody knows how well the model does: no rows were kept aside. With holdout = 0.25" in untested
    )


def test_settings_are_tables_where_they_have_settings(federation, tmp_path):
    sites = "".join(f'[[sites]]\nname = "h{at}"\nfile = "{federation}/h0.csv"\n' for at in range(3))
    text = (
        'method = "fedavg"\nlabel = "diagnosis"\n[parameters]\nn_rounds = 2\nclasses = ["b", "m"]\n'
        'aggregation = {name = "trimmed", trim = 0.3}\nschedule = "cosine"\n'
    )
    (tmp_path / "t.toml").write_text(text + sites)
    call("run", tmp_path / "t.toml", "--policy", "relaxed", "--out", tmp_path / "t")
    settings = read_folder(tmp_path / "t-1")["config"]["parameters"]
    assert settings["aggregation"] == {"name": "trimmed", "trim": 0.3}
    assert settings["schedule"] == "cosine"
    assert settings["classes"] == ["b", "m"]


def test_the_command_runs_what_the_library_runs(tmp_path):
    sites = fedgeom.load_set("wine", n_sites=3).train
    for site in sites:
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    (tmp_path / "w.toml").write_text(
        f'method = "moments"\nseed = 4\nlabel = "kind"\n[parameters]\nspace = "euclidean"\n{blocks}'
    )
    call("run", tmp_path / "w.toml", "--out", tmp_path / "w")
    same = run(fedgeom.Moments(space="euclidean"), sites, seed=4, policy=StrictPolicy()).model
    assert (tmp_path / "w-1" / "model.safetensors").read_bytes() == same.to_bytes()


def test_a_refused_run_leaves_no_folder(federation, tmp_path):
    text = (
        (federation / "study.toml")
        .read_text()
        .replace('"discriminant"', '"none"')
        .replace('"h', f'"{federation}/h')
    )
    (tmp_path / "a.toml").write_text(text)
    assert "rows have 30 columns; the disc has 2" in call(
        "run", tmp_path / "a.toml", "--out", tmp_path / "r", code=2
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_a_gap_in_any_row_is_found_before_anything_is_sent(tmp_path):
    sites = fedgeom.load_set("wine", n_sites=3).train
    for site in sites:
        site.X[7, 2] = np.nan
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    for seed in range(3):  # set aside with one seed, learnt from with another
        (tmp_path / "w.toml").write_text(
            f'method = "moments"\nseed = {seed}\nlabel = "kind"\nholdout = 0.3\n'
            f'[parameters]\nspace = "euclidean"\n{blocks}'
        )
        said = call("run", tmp_path / "w.toml", "--out", tmp_path / "w", code=2).replace("\n", " ")
        assert "sites 'site-1', 'site-2', 'site-3': row 9, column 'ash' is nan" in said
        assert not (tmp_path / "w-1").exists()


def test_resuming(federation, finished, tmp_path):
    file, folder = federation / "study.toml", finished[0]
    for words in (("--seed", 1), ("--out", tmp_path / "x")):
        assert "leave --out and --seed away" in call("run", file, "--resume", folder, *words, code=2)
    assert "is finished; its model is" in call("run", file, "--resume", folder, code=2)
    assert "is not a run folder" in call("run", file, "--resume", tmp_path, code=2)


@pytest.fixture
def interruptible():
    """Hear interrupts also where tests run in the background, in which a shell has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_goes_on_with_its_seed_and_gives_the_same_model(
    sign, code, federation, tmp_path, monkeypatch
):
    file, out = federation / "study.toml", tmp_path / "run"
    import fedgeom.engines.embedded as embedded

    deliver = embedded.EmbeddedEngine.deliver

    def stop(self, requests):
        if any(b"hulls.encode" in request for request in requests.values()):
            signal.raise_signal(sign)
        return deliver(self, requests)

    monkeypatch.setattr(embedded.EmbeddedEngine, "deliver", stop)
    output = call("run", file, "--out", out, "--seed", 3, code=code)
    assert "Interrupted. What happened so far is in" in output
    assert f"--resume {out}-1" in output.replace("\n", "")
    assert read_folder(f"{out}-1")["status"]["state"] == "interrupted"
    monkeypatch.undo()
    call("run", file, "--resume", f"{out}-1")
    call("run", file, "--out", out, "--seed", 3)
    first, second = ((tmp_path / f"run-{n}" / "model.safetensors").read_bytes() for n in (1, 2))
    assert first == second
    assert not (tmp_path / "run-1" / "resume").exists()
    assert read_folder(f"{out}-1")["config"]["seed"] == 3


def test_no_patient_is_learnt_from_and_tested_on(tmp_path):
    sites = fedgeom.load_set("wine", n_sites=3, test_share=0.0).train
    for site in sites:
        named = [f"p{at // 3}" for at in range(len(site))]
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
        lines = (tmp_path / f"{site.name}.csv").read_text().splitlines()
        rows = [f"{line},{name}" for line, name in zip(lines, ["patient", *named], strict=True)]
        (tmp_path / f"{site.name}.csv").write_text("\n".join(rows) + "\n")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    head = 'method = "moments"\nlabel = "kind"\nholdout = 0.25\nholdout_by = "patient"\n'
    (tmp_path / "w.toml").write_text(f'{head}[parameters]\nspace = "euclidean"\n{blocks}')
    assert "majority class" in call("run", tmp_path / "w.toml", "--out", tmp_path / "w")
    assert read_folder(tmp_path / "w-1")["config"]["parameters"]["holdout"] == {"share": 0.25, "grouped": True}
    grouped = [fedgeom.read_site(tmp_path / f"{site.name}.csv", label="kind", group="patient") for site in sites]
    same = run(
        fedgeom.Moments(space="euclidean"), grouped, holdout=Holdout(0.25, grouped=True), policy=StrictPolicy()
    )
    for train, aside in zip(same.train, same.test, strict=True):
        assert not set(train.groups.tolist()) & set(aside.groups.tolist())
    assert read_evaluation(tmp_path / "w-1")["own"] == same.evaluation["own"]
    assert same.evaluation.groups == sum(len(np.unique(aside.groups)) for aside in same.test)


@pytest.mark.parametrize("wrong", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, wrong):
    def full(path, content, **_):
        raise OSError(wrong, "no room")

    file = write_raw(tmp_path, 'method = "ridge"\nparameters = { features = "linear" }\n')
    monkeypatch.setattr("fedgeom.federation.record.write_json", full)
    text = " ".join(call("run", file, "--out", tmp_path / "r", code=2).split())
    assert "the disk is full, or your quota is. Files are whole or as they were; make room" in text
    assert "Traceback" not in text
