"""Builds a wheel that contains the tool and the shared library.

    cargo build --profile small -p creel-cli --target x86_64-unknown-linux-musl
    cargo build --profile small -p creel-abi
    python3 packages/python/build.py TOOL LIBRARY FOLDER

TOOL should be the static one. The script needs only Python.
"""

import base64
import hashlib
import os
import platform
import re
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def version():
    with open(os.path.join(HERE, "../../Cargo.toml"), encoding="utf-8") as cargo:
        return re.search(r'^version = "(.*)"', cargo.read(), re.MULTILINE).group(1)


def main(tool, library, folder):
    number = version()
    tag = f"py3-none-linux_{platform.machine()}"
    info = f"creel-{number}.dist-info"
    with open(os.path.join(HERE, "creel/__init__.py"), "rb") as module:
        files = {"creel/__init__.py": (module.read(), 0o644)}
    for path, name, mode in [
        (library, "creel/libcreel_abi.so", 0o755),
        (tool, f"creel-{number}.data/scripts/creel", 0o755),
    ]:
        with open(path, "rb") as file:
            files[name] = (file.read(), mode)
    about = (
        f"Metadata-Version: 2.1\nName: creel\nVersion: {number}\n"
        "Summary: Returns how many threads a program should start, and has a tool that applies it\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: creel\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/METADATA"] = (about.encode(), 0o644)
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    record = ""
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    out = os.path.join(folder, f"creel-{number}-{tag}.whl")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(out)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
