"""How much memory this process may still take: a table too large is refused with words, not by the kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource


def free_memory() -> int | None:
    """Return how many bytes can still be asked for; None where nobody says.

    The machine, the control group (a container) and the process's own limit may each set one; the least counts.
    """
    known = [found for found in (_of_machine(), _of_group(), _of_process()) if found is not None]
    return min(known) if known else None


def as_gib(size: int) -> str:
    """Write a number of bytes for a person.

    >>> as_gib(3 * 2**30), as_gib(5 * 2**20)
    ('3.0 GiB', '5.0 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size / 2**20:.1f} MiB"


def _of_machine() -> int | None:
    """What the kernel says is available without swapping, or where it says nothing, how many pages are free."""
    found = _field(Path("/proc/meminfo"), "MemAvailable:")
    if found is None:
        try:
            found = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError, AttributeError):
            return None
    return found


def _of_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the control group still allows."""
    try:
        most, used = ((root / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(int(most) - int(used), 0) if most.isdecimal() and used.isdecimal() else None


def _of_process() -> int | None:
    """What the process's own limits still allow: a site's max_memory_mb is one of data."""
    if sys.platform == "win32":
        return None
    found = []
    for limit, field in ((resource.RLIMIT_DATA, "VmData:"), (resource.RLIMIT_AS, "VmSize:")):
        most, used = resource.getrlimit(limit)[0], _field(Path("/proc/self/status"), field)
        if most != resource.RLIM_INFINITY and used is not None:
            found.append(max(most - used, 0))
    return min(found) if found else None


def _field(file: Path, name: str) -> int | None:
    """Read one line of kB from the kernel's files, in bytes."""
    try:
        line = next((line for line in file.read_text().splitlines() if line.startswith(name)), "")
    except OSError:
        return None
    return int(line.split()[1]) * 1024 if line else None
