"""Process the units of a list that are not done yet, for any scheduler and on any machine.

usage: work.py [--jobs N] LIST        (- for stdin)

A unit is a line of JSON. There are two kinds:

- A song, as `creel-vgm units` prints it, has `song` and `output`. Each song is rendered by a
  `creel-vgm render --skip-done` of its own.
- A command, as sweep.py prints it, has `command` and `output`. The stdout of the command becomes
  that file, which is either complete or absent.

Exit codes:
  0   all units are done
  1   some units failed and will fail again, because a song is malformed or has disappeared from its
      folder; the others are done
  2   the list or the call is wrong, or a program is missing
  75  a program was busy or killed, or a file could not be read or written (for example because the
      disk is full), even after three tries; run the same command again
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

TRIES = 3
DONE, FAILED, USAGE, AGAIN = 0, 1, 2, 75
# Exit codes of creel-vgm: some songs failed; all songs were malformed.
SOME, MALFORMED = 1, 65
# Exit codes of a shell for a program that cannot be executed, or does not exist.
NO_PROGRAM = (126, 127)


def report(message):
    print(f"work.py: {message}", file=sys.stderr)


def outcome(code):
    """Maps the exit code of a program to one of ours. The code of a killed program is negative."""
    if code == DONE:
        return DONE
    if code == USAGE or code in NO_PROGRAM:
        return USAGE
    return FAILED if code in (SOME, MALFORMED) else AGAIN


def with_retries(run_once):
    """Calls `run_once` up to three times, until a retry would not help."""
    for _ in range(TRIES):
        try:
            code = outcome(run_once())
        except OSError as error:
            report(error)
            code = AGAIN
        if code != AGAIN:
            break
    return code


def is_installed(program):
    if shutil.which(program):
        return True
    report(f"cannot find the program {program}, or it is not executable")
    return False


def render(folder, song, jobs):
    command = ["creel-vgm", "render", "-q", "--skip-done", "-o", folder]
    return subprocess.call(command + (["--jobs", jobs] if jobs else []) + ["--", song])


def render_all(folder, units, jobs):
    """Renders all songs of one output folder, and returns an exit code of creel-vgm or of ours."""
    if not is_installed("creel-vgm"):
        return USAGE
    # We render the songs one by one, because only then does the exit code say why a song failed. Also,
    # songs of one call have track numbers, and these would depend on how the list was divided. If a
    # song is not malformed, another try may help. A song that has disappeared from its folder will
    # not come back. If its whole folder is missing, a disk may be unmounted for now.
    left = [unit["song"] for unit in units if not os.path.exists(unit["output"])]
    codes = []
    for song in left:
        if not os.path.lexists(song) and os.path.isdir(os.path.dirname(song) or "."):
            report(f"cannot render {song}: the file does not exist any more")
            codes.append(MALFORMED)
            continue
        codes.append(render(folder, song, jobs))
        if codes[-1] not in (DONE, MALFORMED):
            return AGAIN if codes[-1] == SOME else codes[-1]
    return max(codes, default=DONE)


def run(command, output, jobs):
    """Runs a command, and writes its stdout to a file that appears only if the command succeeds."""
    if not is_installed(command[0]):
        return USAGE
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    part = f"{output}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            # We copy through a pipe, so that we notice a full disk ourselves. The command would
            # only fail with a code of its own.
            command = command + (["--jobs", jobs] if jobs else [])
            with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
                shutil.copyfileobj(program.stdout, file)
                file.flush()
            os.fsync(file.fileno())
        if program.returncode == 0:
            os.replace(part, output)
    finally:
        if os.path.exists(part):
            os.remove(part)
    return program.returncode


def parse_unit(line):
    """Parses and checks one line of a list."""
    unit = json.loads(line)
    song, command, output = (unit.get(name) for name in ("song", "command", "output"))
    words = [song] if command is None else command
    if not isinstance(words, list) or not words or not isinstance(output, str):
        raise ValueError("a unit needs `output`, and `song` or `command`")
    if not all(isinstance(word, str) for word in words):
        raise ValueError("`song` and the words of `command` must be strings")
    return unit


def read_units(name):
    """Reads the units of a list; `-` is stdin."""
    units = []
    with sys.stdin if name == "-" else open(name) as file:
        for number, line in enumerate(file, 1):
            try:
                if line.strip():
                    units.append(parse_unit(line))
            except (ValueError, AttributeError) as error:
                raise ValueError(f"{name}, line {number}: {error}") from error
    return units


def work(units, jobs):
    """Processes all units and returns our exit code."""
    folders, codes = {}, [DONE]
    for unit in units:
        if unit.get("command") is None:
            folders.setdefault(os.path.dirname(unit["output"]) or ".", []).append(unit)
        elif not os.path.exists(unit["output"]):
            command, output = unit["command"], unit["output"]
            codes.append(with_retries(lambda: run(command, output, jobs)))
    for folder, songs in folders.items():
        codes.append(with_retries(lambda: render_all(folder, songs, jobs)))
    return max(codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    help_jobs = "the number of workers, if the scheduler sets neither a mask nor a quota"
    parser.add_argument("--jobs", help=help_jobs)
    parser.add_argument("list", help="the list of units, or - for stdin")
    args = parser.parse_args()
    try:
        units = read_units(args.list)
    except (ValueError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        report(error)
        return USAGE
    except OSError as error:
        report(error)
        return AGAIN
    return work(units, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
