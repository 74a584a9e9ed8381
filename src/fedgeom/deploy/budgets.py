"""What a site's runs have cost of its privacy: the file budget.json in the site's folder.

A run is charged when the site joins it, before the first answer leaves, and stays charged however it ends. Costs add up
as ρ of concentrated differential privacy; the accountant says which ε that is. Entries are chained by a hash that is
keyed with the site's identity, and how many there are stands in a second file and, run by run, in the site's ledger: a
file that was changed, cut or lost is noticed, and the site answers nothing until its steward has said what to do. Who
puts back older copies of all three files together is not noticed.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedgeom.crypto.keys import Identity, fingerprint
from fedgeom.deploy.journal import CHARGED, Journal, LocalEntry
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import Spent
from fedgeom.privacy.accounting import epsilon_of
from fedgeom.storage import locked, write_file

FORMAT = "fedgeom-budget/1"
MEND = (
    "the site answers nothing until that is settled: put the right file back, or, knowing that what was spent before "
    "is then no longer counted, begin anew with: fedgeom site budget --restart"
)


class Charge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one run cost, and of which part of it, where not of all; or, with no run, a note that the count was begun
    anew."""

    when: float
    run: str
    method: str
    epsilon: float
    delta: float
    unit: str
    rho: float
    note: str = ""
    mac: str = ""
    """A keyed hash of this entry and the one before it, in hexadecimal digits."""


class BudgetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    format: str = FORMAT
    charges: tuple[Charge, ...] = ()


class BudgetHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The second file: how many entries there are at least, and the last one's keyed hash."""

    count: int
    mac: str
    seal: str


@dataclass(frozen=True)
class BudgetStore:
    """Reads, checks and adds to a site's budget; what is added is on the disk when it returns."""

    folder: Path
    identity: Identity
    policy: Policy
    clock: Callable[[], float] = time.time

    @property
    def path(self) -> Path:
        """Where the charges are."""
        return self.folder / "budget.json"

    @property
    def head(self) -> Path:
        """Where their number is."""
        return self.folder / "budget.head"

    def read(self) -> tuple[Charge, ...]:
        """Return all charges since the count was begun; raise `InputError` where the file was changed, cut or lost."""
        counted = self._read_head()
        charged = self._in_ledger()
        if not self.path.is_file():
            if counted is None and not charged:
                return ()
            raise InputError(f"{self.path} is lost, though runs were charged to it; {MEND}")
        try:
            file = msgspec.json.decode(self.path.read_bytes(), type=BudgetFile)
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {error}; {MEND}") from error
        if file.format != FORMAT:
            raise InputError(f"{self.path} has the format {file.format!r}; this fedgeom reads {FORMAT!r}")
        last = ""
        for at, one in enumerate(file.charges):
            if not hmac.compare_digest(self._mac(last, one), one.mac):
                raise InputError(f"{self.path} was changed: entry {at + 1} is not as this site wrote it; {MEND}")
            last = one.mac
        self._check_whole(file.charges, counted, charged)
        return file.charges

    def _in_ledger(self) -> set[str]:
        """Return the runs that were charged, by the site's ledger, since the count was begun anew, if it was.

        By the order of the lines, not by their times: clocks are put back.
        """
        runs = [entry.run for entry in Journal(self.folder).entries() if entry.question == CHARGED]
        anew = max((at for at, run in enumerate(runs) if not run), default=-1)
        return set(runs[anew + 1 :])

    def _check_whole(self, charges: Sequence[Charge], counted: BudgetHead | None, charged: set[str]) -> None:
        count = 0 if counted is None else counted.count
        cut = len(charges) < count or bool(count and counted and charges[count - 1].mac != counted.mac)
        if cut or charged - {one.run for one in charges} or (counted is None and len(charges) > 1):
            raise InputError(f"{self.path} lacks entries that were written, or {self.head} is not its own; {MEND}")

    def _read_head(self) -> BudgetHead | None:
        if not self.head.is_file():
            return None
        try:
            found = msgspec.json.decode(self.head.read_bytes(), type=BudgetHead)
        except ValueError as error:
            raise InputError(f"{self.head} is damaged: {error}; {MEND}") from error
        if not hmac.compare_digest(self._seal(found.count, found.mac), found.seal):
            raise InputError(f"{self.head} was changed: it is not as this site wrote it; {MEND}")
        return found

    def spent(self, more: Sequence[float] = ()) -> float:
        """Return the ε that all runs come to together at the policy's δ, and with ``more`` (ρ) if any."""
        return epsilon_of([*(one.rho for one in self.read()), *more], self.policy.budget_delta)

    def check(self, run: bytes, spent: Spent | None) -> None:
        """Raise `ProtocolError` where a run would exceed the budget; one that was charged already does not."""
        cap = self.policy.max_epsilon
        if spent is None or self._charged(run, spent) or not cap:
            return
        before = self.spent()
        total = self.spent([spent.rho])
        if total > cap * (1 + 1e-6):
            raise ProtocolError(
                f"the site's privacy budget is spent: its runs come to epsilon = {before:.3g}, and this job would "
                f"bring it to {total:.3g}; its policy has max_epsilon = {cap:g} (delta = {self.policy.budget_delta:g})"
            )

    def _charged(self, run: bytes, spent: Spent) -> bool:
        """Say whether a run was charged, for as much; raise `ProtocolError` where it was charged for something else.

        A run's number is the coordinator's to choose: it could have a cheap run charged, and then ask for a dear one.
        """
        found = next((one for one in self.read() if one.run == run.hex()), None)
        if found is None:
            return False
        if (found.epsilon, found.delta, found.unit, found.note) != (
            spent.epsilon,
            spent.delta,
            spent.unit,
            spent.part,
        ):
            raise ProtocolError(
                f"run {run.hex()[:8]} was charged on other terms before (epsilon = {found.epsilon:g}, delta = "
                f"{found.delta:g} per {found.unit}); other terms need a run of their own"
            )
        return True

    def charge(self, run: bytes, method: str, spent: Spent | None) -> None:
        """Write down what a run costs, once (`fedgeom.federation.policy.Budget`)."""
        if spent is None:
            return
        with locked(self.folder / "budget.lock"):
            self.check(run, spent)
            if self._charged(run, spent):
                return
            charges = self.read()
            made = Charge(
                when=round(self.clock(), 3),
                run=run.hex(),
                method=method,
                epsilon=spent.epsilon,
                delta=spent.delta,
                unit=spent.unit,
                rho=spent.rho,
                note=spent.part,
            )
            self._write(charges, made)
            said = f"charged epsilon = {spent.epsilon:g}, delta = {spent.delta:g} per {spent.unit}"
            said += f" (for {spent.part} alone)" if spent.part else ""
            Journal(self.folder).enter(_line(made, said))

    def restart(self) -> Path | None:
        """Begin the count anew, with a note that says so; return where the old file is kept, if there was one."""
        with locked(self.folder / "budget.lock"):
            kept = None
            if self.path.is_file():
                kept = self._free_name()
                self.path.replace(kept)
            self.head.unlink(missing_ok=True)
            note = "the count was begun anew: what was spent before is not known"
            when = round(self.clock(), 3)
            begun = Charge(when=when, run="", method="", epsilon=0.0, delta=0.0, unit="", rho=0.0, note=note)
            # The ledger first: what was charged before this line is no longer looked for.
            Journal(self.folder).enter(_line(begun, note))
            self._write((), begun)
            return kept

    def _free_name(self) -> Path:
        """Return a name for the old file that no older one has, whatever the clock says."""
        base = f"budget-{int(self.clock())}"
        number = 1
        while (found := self.path.with_name(f"{base}{f'-{number}' if number > 1 else ''}.json")).exists():
            number += 1
        return found

    def _write(self, charges: Sequence[Charge], new: Charge) -> None:
        last = charges[-1].mac if charges else ""
        new = msgspec.structs.replace(new, mac=self._mac(last, new))
        file = BudgetFile(charges=(*charges, new))
        count = len(charges) + 1
        write_file(self.path, msgspec.json.format(msgspec.json.encode(file)), private=True, durable=True)
        head = BudgetHead(count=count, mac=new.mac, seal=self._seal(count, new.mac))
        write_file(self.head, msgspec.json.encode(head), private=True, durable=True)

    @property
    def _key(self) -> bytes:
        return fingerprint(b"fedgeom/1 privacy budget", self.identity.secret)

    def _mac(self, last: str, charge: Charge) -> str:
        body = msgspec.json.encode(msgspec.structs.replace(charge, mac=""))
        return hmac.digest(self._key, fingerprint(b"charge", last.encode(), body), "sha256").hex()

    def _seal(self, count: int, mac: str) -> str:
        return hmac.digest(self._key, fingerprint(b"head", str(count).encode(), mac.encode()), "sha256").hex()


def _line(charge: Charge, note: str) -> LocalEntry:
    return LocalEntry(
        time=charge.when,
        run=charge.run,
        method=charge.method,
        question=CHARGED,
        answer="none",
        received=0,
        sent=0,
        reveals="",
        note=note,
        counts=bool(charge.run),
    )


def unaccounted_runs(folder: Path, charges: Sequence[Charge]) -> list[str]:
    """Return the runs, by the site's ledger, in which something left the site that nothing was charged for."""
    journal = Journal(folder)
    known = {one.run for one in charges if not one.note}
    ordered = dict.fromkeys(entry.run for entry in journal.entries() if entry.run and entry.sent)
    return [run for run in ordered if run not in known and journal.has_answered(bytes.fromhex(run))]
