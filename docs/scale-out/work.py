"""Does the units of a list, those that are not done yet; for any scheduler, on any machine.

usage: work.py [--jobs N] LIST        (- for stdin)

A unit is a JSON line. Songs, as `creel-vgm units` prints them, have `song` and `output`; all that
share a folder are rendered by one `creel-vgm render --skip-done`. Others, as sweep.py prints them,
have `command` and `output`: the command's stdout becomes that file, written in whole or not at all.

Exit codes: 0 all is done; 1 some failed and will fail again, the others are done; 2 the list or the
call is wrong; 75 something was busy or killed, and was tried three times: do the same again.
"""

import argparse
import json
import os
import subprocess
import sys

TRIES = 3
DONE, FAILED, USAGE, AGAIN = 0, 1, 2, 75


def outcome(code):
    """An exit code of ours for one of a program's; those of a killed one are below zero."""
    if code in (DONE, USAGE):
        return code
    return FAILED if code in (1, 65) else AGAIN


def tried(do):
    for _ in range(TRIES):
        code = outcome(do())
        if code != AGAIN:
            break
    return code


def render(folder, songs, jobs):
    command = ["creel-vgm", "render", "-q", "--skip-done", "-o", folder]
    return subprocess.call(command + (["--jobs", jobs] if jobs else []) + ["--", *songs])


def run(command, output, jobs):
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    part = f"{output}.{os.getpid()}.part"
    with open(part, "wb") as file:
        code = subprocess.call(command + (["--jobs", jobs] if jobs else []), stdout=file)
        os.fsync(file.fileno())
    if code == 0:
        os.replace(part, output)
    else:
        os.remove(part)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", help="workers, where the scheduler sets no mask and no quota")
    parser.add_argument("list")
    told = parser.parse_args()
    with sys.stdin if told.list == "-" else open(told.list) as file:
        units = [json.loads(line) for line in file if line.strip()]
    folders, codes = {}, [DONE]
    for unit in units:
        if "song" in unit:
            songs = folders.setdefault(os.path.dirname(unit["output"]) or ".", [])
            songs.append(unit["song"])
        elif not os.path.exists(unit["output"]):
            command, output = unit["command"], unit["output"]
            codes.append(tried(lambda: run(command, output, told.jobs)))
    for folder, songs in folders.items():
        codes.append(tried(lambda: render(folder, songs, told.jobs)))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
