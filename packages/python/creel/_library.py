"""Loads the C library, and declares the functions that we use."""

import ctypes
import os
import sys

ABI_VERSION = 1
HERE = os.path.dirname(os.path.abspath(__file__))


def _names():
    """Yield the library of this package, and then the names under which a system may have it."""
    names = {"darwin": "libcreel.dylib", "win32": "creel.dll"}
    name = names.get(sys.platform, f"libcreel.so.{ABI_VERSION}")
    bundled = os.path.join(HERE, name)
    if os.path.exists(bundled):
        yield bundled
    yield name


def _load():
    errors = []
    for name in _names():
        try:
            library = ctypes.CDLL(name)
            found = library.creel_abi_version()
        except (OSError, AttributeError) as error:
            errors.append(f"{name}: {error}")
            continue
        if found != ABI_VERSION:
            errors.append(f"{name}: has ABI version {found}, but this package needs {ABI_VERSION}")
            continue
        return library
    raise ImportError(
        "creel cannot load its library. Install a wheel of creel-workers for this platform, or "
        "install the library with crates/abi/install. Tried " + "; ".join(errors)
    )


library = _load()
library.creel_workers.restype = ctypes.c_uint
library.creel_workers_ceil.restype = ctypes.c_uint
library.creel_workers_in.restype = ctypes.c_uint
library.creel_workers_in.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
library.creel_version.restype = ctypes.c_char_p
library.creel_refresh.restype = None
library.creel_set_mask.argtypes = [ctypes.c_char_p]
library.creel_cores.restype = ctypes.c_size_t
library.creel_cores.argtypes = [ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t]
for _name in ["bound_by", "notes", "thread_mask", "process_mask"]:
    _function = getattr(library, "creel_" + _name)
    _function.restype = ctypes.c_size_t
    _function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def text(function):
    """Return the text that a function writes."""
    length = function(None, 0)
    while True:
        buffer = ctypes.create_string_buffer(length + 1)
        length = function(buffer, len(buffer))
        # The text may have become longer since the first call.
        if length < len(buffer):
            return buffer.value.decode()
