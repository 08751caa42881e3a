"""What a million songs on many cores take, by a model with inputs measured on this machine.

usage: model.py [--program creel-vgm] [--songs N] [--cores N] [--store-mb-s N] SONGS...

Measured: the CPU time that rendering the songs takes, their bytes, and what starting the program
costs (a run that finds all done, less nothing). Assumed: as many like songs as said, cores like this
one, a store that takes so many MB a second, and a scheduler that starts so many tasks a second.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time


def cpu_s(command):
    """The CPU time of a child, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(program, songs):
    with tempfile.TemporaryDirectory() as out:
        command = [program, "render", "-q", "--jobs", "1", "--skip-done", "-o", out]
        song_s = cpu_s(command + songs) / len(songs)
        song_bytes = sum(entry.stat().st_size for entry in os.scandir(out)) / len(songs)
        begun = time.monotonic()
        for song in songs:
            subprocess.run(command + [song], check=True, stdout=subprocess.DEVNULL)
        start_s = (time.monotonic() - begun) / len(songs)
    return song_s, song_bytes, start_s


def span(seconds):
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.3g} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="creel-vgm")
    parser.add_argument("--songs", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=10_000)
    parser.add_argument("--store-mb-s", type=float, default=10_000)
    parser.add_argument("--tasks-per-s", type=float, default=200)
    parser.add_argument("song", nargs="+")
    told = parser.parse_args()
    song_s, song_bytes, start_s = measure(told.program, told.song)
    compute_s = told.songs * song_s / told.cores
    total_bytes = told.songs * song_bytes
    rows = [
        ("a song, CPU time", f"{song_s * 1000:.0f} ms"),
        ("a song, WAV", f"{song_bytes / 1e6:.1f} MB"),
        ("a start that finds all done", f"{start_s * 1000:.1f} ms"),
        ("computing, on all cores", span(compute_s)),
        ("the same on one core", span(told.songs * song_s)),
        ("all WAVs", f"{total_bytes / 1e12:.1f} TB"),
        (f"writing them at {told.store_mb_s:.0f} MB/s", span(total_bytes / told.store_mb_s / 1e6)),
        ("what the cores would write at full speed", f"{total_bytes / compute_s / 1e9:.0f} GB/s"),
        (f"a task a song, at {told.tasks_per_s:.0f} tasks a second", span(told.songs / told.tasks_per_s)),
        ("a petabyte of WAV is", f"{1e15 / song_bytes / 1e6:.0f} million songs"),
        ("and takes, on all cores", span(1e15 / song_bytes * song_s / told.cores)),
        ("and to write", span(1e15 / told.store_mb_s / 1e6)),
    ]
    for name, value in rows:
        print(f"{name:44} {value}")
    limits = {
        "the cores": compute_s,
        "the store": total_bytes / told.store_mb_s / 1e6,
        "the scheduler, with a task a song": told.songs / told.tasks_per_s,
    }
    print("what breaks first:", max(limits, key=limits.get))


if __name__ == "__main__":
    main()
