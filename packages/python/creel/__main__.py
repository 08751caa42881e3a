"""`python -m creel` runs the tool: `creel topo`, or with arguments any of its commands."""

import os
import sys

from ._library import HERE


def main():
    # We do not search PATH, because the `creel` there may be the script that calls this function.
    tool = os.path.join(HERE, "creel.exe" if sys.platform == "win32" else "creel")
    if os.path.exists(tool):
        try:
            os.execv(tool, [tool, *(sys.argv[1:] or ["topo"])])
        except OSError as error:
            sys.exit(
                f"creel: cannot run {tool}: {error.strerror}. Install a wheel of creel-workers for "
                "this platform again"
            )
    if len(sys.argv) > 1:
        sys.exit(
            f"creel: this installation has no tool, so it cannot run `creel {sys.argv[1]}`. Install "
            "a wheel of creel-workers that contains the tool, or build the tool from a checkout "
            "with `cargo install --path apps/creel-cli`, and run it by its path"
        )
    import creel

    print(f"{creel.workers()} workers, bound by {creel.bound_by()}")
    print("note: this installation has no tool, so `creel topo` is not available", file=sys.stderr)


if __name__ == "__main__":
    main()
