"""What a process of a federation may do to its machine: how much memory it takes, and what it leaves on the disk."""

from __future__ import annotations

import ctypes
import os
import sys

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
        wanted, (_, hard) = megabytes * 2**20, resource.getrlimit(resource.RLIMIT_DATA)
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
