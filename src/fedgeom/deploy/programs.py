"""What a site's and a coordinator's processes do first: limit their memory, leave no traces, import ahead."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys

import msgspec

if sys.platform != "win32":
    import resource

PR_SET_DUMPABLE = 4
"""Linux's number for the call that says whether a process leaves an image of itself."""


def memory_can_be_limited() -> bool:
    """Say whether a limit of memory holds here: only Linux counts what numpy asks for."""
    return sys.platform == "linux"


def limit_memory(megabytes: int) -> None:
    """Let this process, and those it starts, take no more memory than this; 0 sets no limit, nor does another system.

    Asking for more raises `MemoryError`. RLIMIT_DATA counts everything that a process may write to and shares with
    nobody, which numpy's arrays are; the stack of the address space, RLIMIT_AS, would also count libraries and mapped
    files that cost nothing.
    """
    if megabytes and memory_can_be_limited():
        wanted = megabytes * 2**20
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def leave_no_traces() -> None:
    """See to it that this process leaves no image of its memory on the disk, and files for its owner only.

    An image has rows and keys in it. A limit of 0 stops the kernel's own, for good; a process that is not dumpable
    gives none to a program that collects them either, and nobody of the same account can look into it.
    """
    os.umask(0o077)
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


AHEAD = (
    "fedgeom.deploy.answers",
    "fedgeom.data.readers",
    "fedgeom.data.validation",
    "fedgeom.geometry.hyperbolic.svm",  # scikit-learn: 2.5 s
    "safetensors.numpy",
)
"""What answers import late."""


def import_ahead() -> None:
    """Import what every answer needs, and do once what is done once in a process, before processes are forked.

    How a kind of message is decoded is worked out when the first one comes, and libraries load parts of themselves when
    they are first used: three quarters of the time of a short answer, in each fork anew, were it not done here. So a
    small run is held over made-up rows.
    """
    import numpy as np  # slow to import, and the connected process needs none of it

    # Likewise.
    from fedgeom.data.sites import SiteData
    from fedgeom.engines.run import run
    from fedgeom.federation.method import METHODS
    from fedgeom.federation.policy import Policy
    from fedgeom.methods.catalogue import method_class

    for name in AHEAD:
        importlib.import_module(name)
    for name in METHODS:
        site = method_class(name).site
        for question in site.understands().values():
            msgspec.msgpack.Decoder(question)
            msgspec.msgpack.Decoder(question.answer)
        msgspec.msgpack.Decoder(site.memory_type)
    rows = np.arange(24.0).reshape(12, 2) % 7
    labels = np.array(["a", "b"] * 6)
    sites = [SiteData(name, rows + at, labels) for at, name in enumerate(("one", "two"))]
    run(method_class("moments").from_terms({"space": "euclidean"}), sites, policy=Policy(min_cohort=2))
    gc.collect()
    gc.freeze()  # or else the first collection in a fork would make a copy of all that there is
