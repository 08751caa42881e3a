"""Returns how many workers this process should start, and applies that number to what is loaded.

The number respects the affinity mask, cpusets and CPU quotas. The hyper-threads of a core count once.

    >>> import creel
    >>> creel.workers() >= 1
    True
"""

import ctypes
import os
from typing import List

from ._apply import Change, apply
from ._library import library as _creel
from ._library import text as _text

__all__ = [
    "Change",
    "apply",
    "bound_by",
    "cores",
    "notes",
    "process_mask",
    "refresh",
    "set_mask",
    "thread_mask",
    "workers",
]
__version__ = _creel.creel_version().decode()


def workers(ceil: bool = False) -> int:
    """Return the number of usable cores, which is at least 1.

    Quotas are rounded down, or up if `ceil` is true. The first call takes about 200 us. Later calls
    take a few microseconds, because the result is kept until the affinity mask changes, for at most
    one second.
    """
    return _creel.creel_workers_ceil() if ceil else _creel.creel_workers()


def refresh() -> None:
    """Make the next call read all limits again."""
    _creel.creel_refresh()


def bound_by() -> str:
    """Return the limit that determined the number, for example "the affinity mask (0-3)"."""
    return _text(_creel.creel_bound_by)


def notes() -> List[str]:
    """Return remarks about limits that are unreadable or contradictory, one string each.

    For example, a remark says that the control groups are hidden.
    """
    return _text(_creel.creel_notes).splitlines()


def cores() -> List[int]:
    """Return the first usable CPU of each core. Quotas are not respected, because they name none."""
    count = _creel.creel_cores(None, 0)
    pus = (ctypes.c_uint * count)()
    count = min(count, _creel.creel_cores(pus, count))
    return list(pus[:count])


def thread_mask() -> str:
    """Return the affinity mask of the calling thread as a Linux CPU list."""
    return _text(_creel.creel_thread_mask)


def process_mask() -> str:
    """Return the affinity mask from which the number is computed.

    It differs from that of the thread if an OpenMP runtime has narrowed the thread.
    """
    return _text(_creel.creel_process_mask)


def set_mask(cpus: str) -> None:
    """Narrow the affinity mask of the calling thread to a Linux CPU list, for example "0-3,8".

    Raises OSError if the list is invalid or names a CPU outside of the current mask, ValueError if
    it contains a NUL, and TypeError if it is not a string.
    """
    if not isinstance(cpus, str):
        raise TypeError(f"creel.set_mask expects a CPU list such as '0-3,8', not {cpus!r}")
    if "\0" in cpus:
        raise ValueError("a CPU list contains no NUL")
    error = _creel.creel_set_mask(cpus.encode())
    if error:
        raise OSError(error, os.strerror(error), cpus)
