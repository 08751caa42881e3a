"""`python -m creel` runs the tool: `creel topo`, or with arguments any of its commands."""

import os
import shutil
import sys

from ._library import HERE


def main():
    bundled = os.path.join(HERE, "creel.exe" if sys.platform == "win32" else "creel")
    tool = bundled if os.path.exists(bundled) else shutil.which("creel")
    if tool is None:
        import creel

        print(f"{creel.workers()} workers, bound by {creel.bound_by()}")
        print("note: this installation has no tool, so `creel topo` is not available", file=sys.stderr)
        return
    os.execv(tool, [tool, *(sys.argv[1:] or ["topo"])])


if __name__ == "__main__":
    main()
