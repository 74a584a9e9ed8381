"""Worker processes that answer for simulated sites side by side; the bytes are those of one process.

A worker is forked when the first question comes, so it has the sites' rows without a copy, and answers for its sites
until the run is over: what they remember stays with it. Between the processes travel the questions, the answers and, at
the end, the memories, all as bytes.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait

import msgspec

from fedgeom.errors import ContractError, InputError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import Buffer

Answer = Callable[[str, bytes], Buffer | Lost]
"""From a site's name and a question's bytes to the answer's."""
AHEAD = 4
"""How many answers may wait until those of sites before them are in; beyond, workers wait that are ahead."""
SENT_AT_ONCE = 1 << 15
"""Questions of so many bytes in all fit into a pipe, whatever the worker does; longer ones are written by a thread."""


class WorkerTask(msgspec.Struct, array_like=True):
    """One question for some sites of a worker; none: hand over the memories and stop."""

    sites: list[str]
    request: memoryview


class WorkerAnswer(msgspec.Struct, array_like=True):
    """A site's answer, or why there is none; or, at the end, its memory."""

    site: str
    answer: memoryview
    lost: str | None = None
    broke: str | None = None
    """What a handler of the method raised that no site should: a fault of the method, not of the site."""


def check_jobs(n_jobs: int) -> None:
    """Refuse a number of workers that makes no sense, or a system that cannot fork."""
    if n_jobs < 1:
        raise InputError(f"n_jobs={n_jobs} given; wanted 1, all in this process, or more workers")
    if n_jobs > 1 and ("fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin"):
        raise InputError(
            f"n_jobs={n_jobs} given; workers are forked, which is not safe on this system: leave it away"
        )


class Workers:
    """Processes, each with some of the sites."""

    def __init__(self, sites: Sequence[str], n_jobs: int, answer: Answer, memory: Callable[[str], bytes]):
        """Fork the workers; ``answer`` answers for a site there, ``memory`` says at the end what it remembers."""
        count = min(n_jobs, len(sites))
        # To and fro: what sites have to do may depend on their place in the list.
        turns = [*range(count), *reversed(range(count))]
        self._worker_of = {name: turns[at % len(turns)] for at, name in enumerate(sites)}
        fork = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        self._due = [0] * count
        """How many answers of each worker are still to come."""
        self._processes = []
        gc.freeze()  # or else the first collection in a worker would make a copy of all that there is
        for at in range(count):
            here, there = fork.Pipe()
            mine = [name for name, worker in self._worker_of.items() if worker == at]
            threads = max((os.cpu_count() or 1) // count, 1)
            process = fork.Process(
                target=_work, args=(there, [*self._pipes, here], mine, answer, memory, threads), daemon=True
            )
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        gc.unfreeze()

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield the answers in the order of the requests, so that a run's record does not depend on who was faster."""
        tasks: dict[tuple[int, int], WorkerTask] = {}
        for name, request in requests.items():  # the same question to many sites goes to a worker once
            key = self._worker_of[name], id(request)
            tasks.setdefault(key, WorkerTask([], memoryview(request))).sites.append(name)
        helpers = []
        for worker, pipe in enumerate(self._pipes):
            mine = [task for (at, _), task in tasks.items() if at == worker]
            self._due[worker] += sum(len(task.sites) for task in mine)
            if sum(len(task.request) for task in mine) <= SENT_AT_ONCE:
                _send(pipe, mine)
            else:  # a worker does not read on while nobody takes its answers
                helpers.append(threading.Thread(target=_send, args=(pipe, mine), daemon=True))
                helpers[-1].start()
        waiting: dict[str, WorkerAnswer] = {}
        for name in requests:
            while name not in waiting:
                worker = self._readable(self._worker_of[name], len(waiting) < AHEAD * len(self._pipes))
                done = self._next(worker)
                if done is not None:
                    waiting[done.site] = done
                elif worker == self._worker_of[name]:  # the process is gone, with what its sites remember
                    waiting[name] = WorkerAnswer(
                        name, memoryview(b""), "the worker process that answered for it died"
                    )
            done = waiting.pop(name)
            if done.broke is not None:
                raise ContractError(done.broke)
            yield name, done.answer if done.lost is None else Lost(done.lost)
        for helper in helpers:
            helper.join()

    def _readable(self, wanted: int, ahead: bool) -> int:
        """Return a worker that has something to say, the wanted one if it has; with ``ahead`` it may be another."""
        due = [worker for worker, count in enumerate(self._due) if count or worker == wanted]
        if not ahead or len(due) == 1:
            return wanted
        ready = wait([self._pipes[worker] for worker in due])
        return next((worker for worker in (wanted, *due) if self._pipes[worker] in ready), wanted)

    def _next(self, worker: int) -> WorkerAnswer | None:
        """Return the next answer of a worker; None when it died."""
        try:
            done = msgspec.msgpack.decode(self._pipes[worker].recv_bytes(), type=WorkerAnswer)
        except (EOFError, OSError):
            self._due[worker] = 0
            return None
        self._due[worker] -= 1
        return done

    def close(self) -> dict[str, bytes]:
        """Stop the workers and return what their sites remember."""
        memories = {}
        for worker, pipe in enumerate(self._pipes):
            while self._due[worker]:  # where nobody wanted all answers to the last question
                self._next(worker)
            _send(pipe, [WorkerTask([], memoryview(b""))])
            self._due[worker] = sum(at == worker for at in self._worker_of.values())
            while self._due[worker] and (done := self._next(worker)) is not None:
                memories[done.site] = bytes(done.answer)
            pipe.close()
        for process in self._processes:
            process.join(timeout=10)
            process.kill()
        self._pipes = []
        self._processes = []
        return memories


def _send(pipe: Connection, tasks: Sequence[WorkerTask]) -> None:
    try:
        for task in tasks:
            pipe.send_bytes(msgspec.msgpack.encode(task))
    except OSError:  # the worker died; whoever receives notices
        pass


def _work(
    pipe: Connection,
    others: Sequence[Connection],
    sites: Sequence[str],
    answer: Answer,
    memory: Callable[[str], bytes],
    threads: int,
) -> None:
    """Answer for some sites until the parent has no more questions, or is gone."""
    for (
        other
    ) in others:  # forked with this process; while they are open here, nobody notices that the parent is gone
        other.close()
    use_threads(threads)
    try:
        while True:
            task = msgspec.msgpack.decode(pipe.recv_bytes(), type=WorkerTask)
            request = bytes(task.request)
            for name in task.sites:
                pipe.send_bytes(msgspec.msgpack.encode(_done(name, request, answer)))
            if not task.sites:
                for name in sites:
                    pipe.send_bytes(msgspec.msgpack.encode(WorkerAnswer(name, memoryview(memory(name)))))
                break
    except (EOFError, OSError, KeyboardInterrupt):
        pass
    finally:
        os._exit(0)  # what the parent has open, such as its lock and its record, is not this process's to close


def _done(site: str, request: bytes, answer: Answer) -> WorkerAnswer:
    try:
        found = answer(site, request)
    except Exception as error:
        return WorkerAnswer(site, memoryview(b""), broke=f"{type(error).__name__}: {error}")
    if isinstance(found, Lost):
        return WorkerAnswer(site, memoryview(b""), found.reason)
    return WorkerAnswer(site, memoryview(found))


TOLD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that say how many threads numerical libraries use: then they do."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Have numerical libraries use one thread, unless the environment says how many: on small arrays they fight."""
    if any(os.environ.get(name) for name in TOLD):
        yield
        return
    from threadpoolctl import threadpool_limits  # it looks for libraries: 20 ms

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else os.cpu_count() or 1
    os.environ[TOLD[0]] = "1"  # for libraries that are loaded on the way
    try:
        with threadpool_limits(1):
            if torch is not None:
                torch.set_num_threads(1)
            yield
    finally:
        os.environ.pop(TOLD[0], None)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(before)


def use_threads(count: int) -> None:
    """Share the processors among the workers; a thread pool from before the fork does not work after it."""
    from threadpoolctl import threadpool_limits  # it looks for libraries: 20 ms, and only in workers

    threadpool_limits(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
