"""Process each unit once on the workers of a Dask scheduler, even if some of the workers die.

usage: creel-vgm units --skip-done -r /shared/music -o /shared/out | with_dask.py SCHEDULER-FILE
"""

import os
import subprocess
import sys

from distributed import Client, as_completed

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.py")


def process(unit, work):
    """Processes one unit on one worker. A unit that is done already costs almost nothing."""
    command = [sys.executable, work, "--jobs", "1", "-"]
    code = subprocess.run(command, input=unit, text=True).returncode
    if code not in (0, 1):
        # The program was busy, interrupted or killed. An exception makes Dask try again, possibly
        # on another worker.
        raise RuntimeError(f"cannot process {unit}: work.py exited with {code}")
    return code


def main(scheduler):
    with Client(scheduler_file=scheduler) as client:
        futures = client.map(process, list(sys.stdin), work=WORK, retries=5, pure=False)
        codes = [future.result() for future in as_completed(futures)]
    failed = [code for code in codes if code != 0]
    print(f"{len(codes)} units, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
