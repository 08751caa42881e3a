"""Renders songs over the workers of a Dask scheduler, each once, whoever dies meanwhile.

usage: with_dask.py SCHEDULER-FILE OUT SONGS...
"""

import json
import subprocess
import sys

from distributed import Client, as_completed


def render(song, out):
    """One song on one worker; what is done already costs a look."""
    command = ["creel-vgm", "render", "-q", "--jobs", "1", "--skip-done", "-o", out, song]
    code = subprocess.run(command).returncode
    if code not in (0, 1, 65):
        # Busy, stopped or killed: Dask tries again, perhaps elsewhere.
        raise RuntimeError(f"{song}: code {code}")
    return song, code


def main(scheduler, out, songs):
    command = ["creel-vgm", "units", "--skip-done", "-o", out, *songs]
    units = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    units = [json.loads(line) for line in units.splitlines()]
    # Those that take longest come first, so none is begun at the very end.
    due = [unit["song"] for unit in units if unit["action"] == "render"]
    with Client(scheduler_file=scheduler) as client:
        futures = client.map(render, due, out=out, retries=5, pure=False)
        outcomes = [future.result() for future in as_completed(futures)]
    failed = [song for song, code in outcomes if code != 0]
    print(f"{len(outcomes)} songs, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
