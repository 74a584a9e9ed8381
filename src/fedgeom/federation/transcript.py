"""A transcript of all answers, so that a coordinator that died can go on where it stopped.

A method's questions follow from the seed and the answers. So a new process that holds the same
conversation asks the same questions; those that were answered are answered from the transcript, and only
the rest goes to the sites. What a site did not answer before a step was over stays unanswered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from fedgeom.errors import InputError
from fedgeom.federation.conversation import Engine, Lost
from fedgeom.federation.envelopes import Buffer
from fedgeom.storage import open_to_append, write_file


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One outcome: the answer, or the reason why there is none; or, with no site, that a step is over."""

    step: int
    site: str = ""
    request: bytes = b""
    """A hash of the question, which must be the same when it is replayed."""
    answer: bytes = b""
    lost: str = ""


class Transcript:
    """An engine that writes every outcome down, and first answers from what was written before."""

    def __init__(self, engine: Engine, path: str | Path):
        self._engine, self._path = engine, Path(path)
        self._known: dict[tuple[int, str], Line] = {}
        self._over: set[int] = set()
        for line in _read(self._path):
            if line.site:
                self._known[line.step, line.site] = line
            else:
                self._over.add(line.step)
        self._file = open_to_append(self._path)
        self._step = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked; once the first question is over, those that were asked it."""
        first = {site for step, site in self._known if step == 1}
        return tuple(sorted(first if 1 in self._over else {*self._engine.names, *first}))

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield known outcomes, then new ones, each written down before it is used."""
        self._step += 1
        step, new = self._step, {}
        for name, request in requests.items():
            line = self._known.get((step, name))
            if line is None:
                if step in self._over:
                    raise InputError(
                        f"the transcript {self._path} does not fit this run: {name!r} was not asked then"
                    )
                new[name] = request
            elif line.request != hashlib.sha256(request).digest():
                raise InputError(f"the transcript {self._path} belongs to a run with other settings")
            else:
                yield name, Lost(line.lost) if line.lost else line.answer
        for name, outcome in self._engine.deliver(new) if new else ():
            lost = outcome.reason or "lost" if isinstance(outcome, Lost) else ""
            self._write(
                Line(
                    step=step,
                    site=name,
                    request=hashlib.sha256(requests[name]).digest(),
                    answer=b"" if isinstance(outcome, Lost) else bytes(outcome),
                    lost=lost,
                )
            )
            yield name, outcome
        if step not in self._over:
            self._write(Line(step=step))

    def reopen_last_step(self, left_out: Collection[str] = ()) -> None:
        """Forget the last step in which sites were lost, and all that followed.

        For a run that ended because too few sites were left: when it is resumed, the lost ones are asked
        again, and the others' answers of that step still hold. The same goes for the sites ``left_out``, whose last
        answer came but could not be used: a wrong key can be set right. What the sites agreed to meanwhile
        they hold on to themselves, so nothing can be asked of them that a living run could not ask.
        """
        lines = list(_read(self._path))
        useless = {name: max((n.step for n in lines if n.site == name), default=0) for name in left_out}
        lost = [bool(line.lost) or useless.get(line.site) == line.step for line in lines]
        last = max((line.step for line, gone in zip(lines, lost, strict=True) if gone), default=0)
        kept = [
            line
            for line, gone in zip(lines, lost, strict=True)
            if line.step < last or (line.step == last and line.site and not gone)
        ]
        if not last:
            return
        self._file.close()
        write_file(self._path, b"".join(_framed(line) for line in kept), private=True, durable=True)

    def _write(self, line: Line) -> None:
        self._file.write(_framed(line))


def _framed(line: Line) -> bytes:
    body = msgspec.msgpack.encode(line)
    return len(body).to_bytes(8, "big") + body


def _read(path: Path) -> Iterator[Line]:
    """Read what is complete; the entry that was being written when the process died is cut off."""
    if not path.exists():
        return
    data, at = path.read_bytes(), 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        if at + 8 + size > len(data):
            break
        try:
            yield msgspec.msgpack.decode(data[at + 8 : at + 8 + size], type=Line)
        except msgspec.DecodeError as error:
            raise InputError(f"{path} is damaged at byte {at}: {error}") from error
        at += 8 + size
    if at < len(data):
        write_file(path, data[:at], private=True, durable=True)
