"""Returns how many workers this process should start.

The number respects the affinity mask, cpusets and CPU quotas. The hyper-threads of a core count once.

    >>> import creel
    >>> creel.workers() >= 1
    True
"""

import ctypes
import os

__all__ = ["workers", "set_mask"]


def _library():
    """Load the library next to this file, or the one of the system."""
    bundled = os.path.join(os.path.dirname(__file__), "libcreel_abi.so")
    library = ctypes.CDLL(bundled if os.path.exists(bundled) else "libcreel_abi.so")
    library.creel_workers.restype = ctypes.c_uint
    library.creel_workers_ceil.restype = ctypes.c_uint
    library.creel_set_mask.argtypes = [ctypes.c_char_p]
    return library


_creel = _library()


def workers(ceil=False):
    """Return the number of usable cores, which is at least 1.

    Quotas are rounded down, or up if `ceil` is true.
    """
    return _creel.creel_workers_ceil() if ceil else _creel.creel_workers()


def set_mask(cpus):
    """Narrow the affinity mask of the calling thread to a Linux CPU list, for example "0-3,8".

    Raises OSError if the list is invalid or names a CPU outside of the current mask.
    """
    error = _creel.creel_set_mask(cpus.encode())
    if error:
        raise OSError(error, os.strerror(error), cpus)
