"""Builds the wheel of creel-workers. It needs only Python, and cargo if nothing is prebuilt.

    pip install packages/python                              # builds with cargo
    python3 packages/python/creel_build.py LIBRARY TOOL FOLDER [PLATFORM]

LIBRARY is the shared library of crates/abi, and TOOL the static tool, or - for none. PLATFORM is
the wheel's platform tag. Without it, we read it from the library: the version of glibc that it
needs, or musl.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
NAME = "creel_workers"


def version():
    with open(os.path.join(ROOT, "Cargo.toml"), encoding="utf-8") as cargo:
        return re.search(r'^version = "(.*)"', cargo.read(), re.MULTILINE).group(1)


def platform_tag(library):
    """Return the platform tag of a library, on Linux from the symbol versions that it needs."""
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    if not sys.platform.startswith("linux"):
        return re.sub("[-.]", "_", sysconfig.get_platform())
    with open(library, "rb") as file:
        data = file.read()
    machine = platform.machine()
    versions = [tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_(2\.\d+)", data)]
    if not versions:
        return f"musllinux_1_2_{machine}"
    major, minor = max([*versions, (2, 17)])
    return f"manylinux_{major}_{minor}_{machine}"


def build(library, tool, folder, tag=None):
    """Write the wheel to a folder, and return its name."""
    number = version()
    tag = f"py3-none-{tag or platform_tag(library)}"
    info = f"{NAME}-{number}.dist-info"
    files = {}

    def add(path, name, mode=0o644):
        with open(path, "rb") as file:
            files[name] = (file.read(), mode)

    package = os.path.join(HERE, "creel")
    for name in sorted(os.listdir(package)):
        if name.endswith(".py") or name == "py.typed":
            add(os.path.join(package, name), f"creel/{name}")
    add(library, f"creel/{library_name(library)}", 0o755)
    if tool:
        add(tool, "creel/creel", 0o755)
    add(os.path.join(ROOT, "LICENSE-MIT"), f"{info}/licenses/LICENSE-MIT")
    add(os.path.join(ROOT, "LICENSE-APACHE"), f"{info}/licenses/LICENSE-APACHE")
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    about = (
        f"Metadata-Version: 2.4\nName: creel-workers\nVersion: {number}\n"
        "Summary: Returns how many workers a program should start, and sizes what is loaded\n"
        "License-Expression: MIT OR Apache-2.0\n"
        "License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n"
        "Requires-Python: >=3.8\nClassifier: Typing :: Typed\n"
        "Description-Content-Type: text/markdown\n\n"
    ) + readme
    wheel = f"Wheel-Version: 1.0\nGenerator: creel_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    scripts = "[console_scripts]\ncreel = creel.__main__:main\n"
    files[f"{info}/METADATA"] = (about.encode(), 0o644)
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (scripts.encode(), 0o644)
    record = ""
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    out = f"{NAME}-{number}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, out), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return out


def library_name(library):
    """Return the name under which the package looks for the library."""
    if library.endswith(".dll"):
        return "creel.dll"
    return "libcreel.dylib" if library.endswith(".dylib") else "libcreel.so.1"


def prebuilt():
    """Return the library and the tool that CREEL_LIBRARY and CREEL_TOOL name, or build them."""
    library, tool = os.environ.get("CREEL_LIBRARY"), os.environ.get("CREEL_TOOL")
    if library:
        return library, tool
    if shutil.which("cargo") is None:
        sys.exit(
            "creel-workers cannot be built: there is no cargo. Install Rust from https://rustup.rs, "
            "or set CREEL_LIBRARY to a library that is built already"
        )
    build = ["cargo", "build", "--profile", "small", "-p", "creel-abi", "-p", "creel-cli"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    names = {"darwin": "libcreel_abi.dylib", "win32": "creel_abi.dll"}
    name = names.get(sys.platform, "libcreel_abi.so")
    return os.path.join(target, "small", name), os.path.join(target, "small", "creel")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel for pip."""
    return build(*prebuilt(), wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Refuse, because the package needs the whole repository."""
    raise NotImplementedError("creel-workers is built from a checkout of the repository")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    _library, _tool, _folder = sys.argv[1:4]
    print(os.path.join(_folder, build(_library, None if _tool == "-" else _tool, _folder, *sys.argv[4:])))
