"""Does units over the workers of a Dask scheduler, each once, whoever dies meanwhile.

usage: creel-vgm units --skip-done -r /shared/music -o /shared/out | with_dask.py SCHEDULER-FILE
"""

import os
import subprocess
import sys

from distributed import Client, as_completed

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.py")


def do(unit, work):
    """One unit on one worker; what is done already costs a look."""
    command = [sys.executable, work, "--jobs", "1", "-"]
    code = subprocess.run(command, input=unit, text=True).returncode
    if code not in (0, 1):
        # Busy, stopped or killed: Dask tries again, perhaps elsewhere.
        raise RuntimeError(f"{unit}: code {code}")
    return code


def main(scheduler):
    with Client(scheduler_file=scheduler) as client:
        futures = client.map(do, list(sys.stdin), work=WORK, retries=5, pure=False)
        codes = [future.result() for future in as_completed(futures)]
    failed = [code for code in codes if code != 0]
    print(f"{len(codes)} units, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
