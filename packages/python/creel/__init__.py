"""How many workers this process should have: mask, cpusets, quotas, hyper-threads once.

    >>> import creel
    >>> creel.workers() >= 1
    True
"""

import ctypes
import os

__all__ = ["workers", "set_mask"]


def _library():
    """The library beside this file, or the system's."""
    beside = os.path.join(os.path.dirname(__file__), "libcreel_abi.so")
    library = ctypes.CDLL(beside if os.path.exists(beside) else "libcreel_abi.so")
    library.creel_workers.restype = ctypes.c_uint
    library.creel_workers_ceil.restype = ctypes.c_uint
    library.creel_set_mask.argtypes = [ctypes.c_char_p]
    return library


_creel = _library()


def workers(ceil=False):
    """The usable cores, at least 1; a fraction of a quota is cut off, or with `ceil` counted."""
    return _creel.creel_workers_ceil() if ceil else _creel.creel_workers()


def set_mask(cpus):
    """Narrows the calling thread's affinity mask to a Linux list such as "0-3,8".

    Raises OSError where the list does not parse or names a CPU outside of the mask.
    """
    error = _creel.creel_set_mask(cpus.encode())
    if error:
        raise OSError(error, os.strerror(error), cpus)
