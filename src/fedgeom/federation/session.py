"""One run from its first question to its last: what embedded runs, deployed coordinators and previews all go through.

A session lets a method hold its conversation over an engine and writes down what comes of it: events, ledger, metrics
and model as they come, and how it ended, however it ended. With a transcript, a run that broke off can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgeom.data.kinds import Kind
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.approval import Invitation
from fedgeom.federation.conversation import Engine, Event, Sites
from fedgeom.federation.method import Method
from fedgeom.federation.model import name_columns, prepare_file
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.record import RunRecord
from fedgeom.federation.run_warnings import written
from fedgeom.federation.transcript import Transcript
from fedgeom.federation.waiting import Patience, PatientEngine


@dataclass(frozen=True)
class Session:
    """A run that is about to be held."""

    method: Method
    run: bytes
    """The run's number, 32 bytes: it is in every message."""
    seed: int = 0
    roster: Mapping[str, bytes] | None = None
    """The identities of the sites, where the coordinator knows them."""
    record: RunRecord | None = None
    transcript: Path | None = None
    """Where answers are kept, so that a coordinator that died can go on."""
    watch: Callable[[Event], None] | None = None
    participants: tuple[str, ...] = ()
    """Everyone who may take part, which is part of the terms; if not given, all whom the engine reaches."""
    columns: tuple[str, ...] = ()
    """The names of the sites' columns, where whoever holds the session knows them: the model keeps them."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of their numbers, likewise."""
    patience: Patience = field(default_factory=Patience)
    """How long to wait for the approval of the sites' stewards."""

    def hold(self, engine: Engine) -> tuple[Any, Sites]:
        """Hold the conversation; return the model and the coordinator's view of the sites.

        The record is not closed when the run went well: what the sites themselves have may be added (`close`).
        """
        known = self.method.site.understands().values()
        invitations = [question.kind for question in known if issubclass(question, Invitation)]
        patient = PatientEngine(engine, invitations, self.patience)
        carrier = patient if self.transcript is None else Transcript(patient, self.transcript)
        sites = Sites(
            carrier,
            run=self.run,
            method=self.method.name,
            seed=self.seed,
            roster=self.roster,
            participants=self.participants,
        )
        patient.listener = sites.waits
        if self.record is not None:
            sites.ledger.listeners.append(self.record.enter)
            sites.listeners.append(self.record.event)
            sites.keepers.append(lambda name, data: self._keep(name, data, sites.preparation))
            sites.reporters.append(self.record.round)
        if self.watch is not None:
            sites.listeners.append(self.watch)
        began = time.perf_counter()
        try:
            model = self.method.conduct(sites).with_columns(self.columns, self.kinds)
            model = model.with_preparation(sites.preparation)
            if sites.last_step is not None:
                if self.record is not None:
                    self.record.model(model.to_bytes())  # whatever becomes of the test
                sites.last_step(model)
            sites.metrics["seconds"] = round(time.perf_counter() - began, 3)
            if patient.waited:
                sites.metrics["seconds_waited"] = round(patient.waited, 3)  # they are among the seconds
            self._write_down(model, sites)
        except BaseException as error:
            if self.record is not None:
                self.record.warnings(sites.warnings)
            if sites.warnings and isinstance(error, Exception):
                error.add_note(written(sites.warnings))
            self.break_off(error)
            if isinstance(error, TooFewSitesError) and isinstance(carrier, Transcript):
                # Whoever resumes the run does so because the lost sites are back.
                carrier.reopen_last_step(sites.left_out)
            raise
        return model, sites

    def _keep(self, name: str, data: bytes, preparation: Preparation | None) -> None:
        """Keep a model on the way to the last one, with the names of its columns and what prepares raw rows."""
        if self.record is None:
            return
        if preparation is None:
            self.record.keep(name, name_columns(data, self.columns, self.kinds))
        else:
            self.record.keep(name, prepare_file(data, preparation))

    def _write_down(self, model: Any, sites: Sites) -> None:
        if self.record is not None:
            self.record.model(model.to_bytes())
            for name, value in sites.metrics.items():
                self.record.metric(name, value)
            self.record.artifacts(sites.artifacts)
            self.record.warnings(sites.warnings)

    def break_off(self, error: BaseException) -> None:
        """Write down that the run ended badly, and why."""
        if self.record is None:
            return
        if isinstance(error, Exception):
            self.record.finish("failed", str(error))
        else:  # Ctrl-C, or a service manager's SIGTERM
            self.record.finish("interrupted", "stopped by the user")

    def close(self) -> None:
        """Write down that the run is finished."""
        if self.record is not None:
            self.record.finish()
