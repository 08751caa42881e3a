"""Does the units of a list, those that are not done yet; for any scheduler, on any machine.

usage: work.py [--jobs N] LIST        (- for stdin)

A unit is a JSON line. Songs, as `creel-vgm units` prints them, have `song` and `output`; all that
share a folder are rendered by one `creel-vgm render --skip-done`. Others, as sweep.py prints them,
have `command` and `output`: the command's stdout becomes that file, written in whole or not at all.

Exit codes: 0 all is done; 1 some failed and will fail again (songs that are malformed, or gone from
their folder), the others are done; 2 the list or the call is wrong, or a program is not there; 75
something was busy or killed, or a file could not be read or written (a full disk), and was tried
three times: do the same again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

TRIES = 3
DONE, FAILED, USAGE, AGAIN = 0, 1, 2, 75
# Of creel-vgm: some failed; nothing but malformed songs.
SOME, MALFORMED = 1, 65
# As a shell says it.
NO_PROGRAM = (126, 127)


def say(what):
    print(f"work.py: {what}", file=sys.stderr)


def outcome(code):
    """An exit code of ours for one of a program's; those of a killed one are below zero."""
    if code == DONE:
        return DONE
    if code == USAGE or code in NO_PROGRAM:
        return USAGE
    return FAILED if code in (SOME, MALFORMED) else AGAIN


def tried(do):
    for _ in range(TRIES):
        try:
            code = outcome(do())
        except OSError as error:
            say(error)
            code = AGAIN
        if code != AGAIN:
            break
    return code


def is_there(program):
    if shutil.which(program):
        return True
    say(f"{program}: not there, or cannot be executed")
    return False


def render(folder, songs, jobs):
    command = ["creel-vgm", "render", "-q", "--skip-done", "-o", folder]
    return subprocess.call(command + (["--jobs", jobs] if jobs else []) + ["--", *songs])


def render_all(folder, units, jobs):
    if not is_there("creel-vgm"):
        return USAGE
    code = render(folder, [unit["song"] for unit in units], jobs)
    if code != SOME:
        return code
    # A song alone says why: what is not malformed may be rendered the next time. One that is gone
    # from its folder will not be back; without its folder, a disk may be missing for now.
    left = [unit["song"] for unit in units if not os.path.exists(unit["output"])]
    codes = []
    for song in left:
        if not os.path.lexists(song) and os.path.isdir(os.path.dirname(song) or "."):
            say(f"{song}: it is not there any more")
            codes.append(MALFORMED)
            continue
        codes.append(render(folder, [song], jobs))
        if codes[-1] not in (DONE, MALFORMED):
            return AGAIN if codes[-1] == SOME else codes[-1]
    return max(codes, default=SOME)


def run(command, output, jobs):
    if not is_there(command[0]):
        return USAGE
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    part = f"{output}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            # Through a pipe: if the disk is full, we see it, and not the command.
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


def unit_of(line):
    unit = json.loads(line)
    song, command, output = (unit.get(name) for name in ("song", "command", "output"))
    words = [song] if command is None else command
    if not isinstance(words, list) or not words or not isinstance(output, str):
        raise ValueError("`output` and one of `song` and `command` are needed")
    if not all(isinstance(word, str) for word in words):
        raise ValueError("names and commands are strings")
    return unit


def units_of(name):
    units = []
    with sys.stdin if name == "-" else open(name) as file:
        for number, line in enumerate(file, 1):
            try:
                if line.strip():
                    units.append(unit_of(line))
            except (ValueError, AttributeError) as error:
                raise ValueError(f"{name}, line {number}: {error}") from error
    return units


def work(units, jobs):
    folders, codes = {}, [DONE]
    for unit in units:
        if unit.get("command") is None:
            folders.setdefault(os.path.dirname(unit["output"]) or ".", []).append(unit)
        elif not os.path.exists(unit["output"]):
            command, output = unit["command"], unit["output"]
            codes.append(tried(lambda: run(command, output, jobs)))
    for folder, songs in folders.items():
        codes.append(tried(lambda: render_all(folder, songs, jobs)))
    return max(codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", help="workers, where the scheduler sets no mask and no quota")
    parser.add_argument("list")
    told = parser.parse_args()
    try:
        units = units_of(told.list)
    except (ValueError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        say(error)
        return USAGE
    except OSError as error:
        say(error)
        return AGAIN
    return work(units, told.jobs)


if __name__ == "__main__":
    sys.exit(main())
