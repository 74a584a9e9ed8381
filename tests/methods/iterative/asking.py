"""A coordinator of one's own, to put any question to sites that have joined."""

from __future__ import annotations

from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Message
from fedgeom.methods.iterative.messages import Update
from fedgeom.methods.iterative.training import TrainingLoop
from tests.methods.iterative.making import unlike

RUN = b"r" * 32


def asking_of(algorithm, sites) -> tuple[Coordinator, EmbeddedEngine]:
    """Sites that were asked nothing yet."""
    engine = EmbeddedEngine(algorithm, sites)
    return Coordinator(engine, run=RUN, method=algorithm.name, roster=engine.roster), engine


def prepared(algorithm, sites=None) -> tuple[TrainingLoop, Coordinator, EmbeddedEngine]:
    """A run in which all sites have joined and know the classes, up to the first round."""
    asking, engine = asking_of(algorithm, sites or unlike())
    talk = TrainingLoop(algorithm, asking)
    talk.agree()
    learner = algorithm.build_learner()
    talk.first = learner.start(talk.agreed.columns, len(talk.agreed.classes), None)
    talk.sent = algorithm.sent_like(algorithm.shared(talk.first))
    return talk, asking, engine


def refusal(asking: Coordinator, asked: Message, expect=Update) -> str:
    """Why the first site refuses a question."""
    answers = asking.ask(asked, of=["s0"], expect=expect)
    assert not answers.came
    return answers.missing["s0"]
