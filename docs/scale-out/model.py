"""Estimate how long many songs take on many cores, with a model based on measurements.

usage: model.py [--program creel-vgm] [--songs N] [--cores N] [--store-mb-s N] [--tasks-per-s N]
                SONGS...

We measure three values on this machine: the CPU time to render a song, the size of its output, and
the time of a run of the program that finds everything done. The options set the rest: the number of
songs and of cores, the MB per second that the storage accepts, and the tasks per second that the
scheduler starts. We assume that all songs and all cores are like those that were measured.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time


def cpu_s(command):
    """Runs a command and returns its CPU time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(program, songs):
    """Returns the CPU seconds and bytes per song, and the seconds per start of the program."""
    with tempfile.TemporaryDirectory() as out:
        command = [program, "render", "-q", "--jobs", "1", "--skip-done", "-o", out]
        song_s = cpu_s(command + songs) / len(songs)
        song_bytes = sum(entry.stat().st_size for entry in os.scandir(out)) / len(songs)
        start = time.monotonic()
        for song in songs:
            subprocess.run(command + [song], check=True, stdout=subprocess.DEVNULL)
        start_s = (time.monotonic() - start) / len(songs)
    return song_s, song_bytes, start_s


def span(seconds):
    """Formats a time in the largest unit that fits."""
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
    args = parser.parse_args()
    song_s, song_bytes, start_s = measure(args.program, args.song)
    compute_s = args.songs * song_s / args.cores
    total_bytes = args.songs * song_bytes
    write_s = total_bytes / args.store_mb_s / 1e6
    start_all_s = args.songs / args.tasks_per_s
    rows = [
        ("CPU time per song", f"{song_s * 1000:.0f} ms"),
        ("WAV per song", f"{song_bytes / 1e6:.1f} MB"),
        ("a run that finds everything done", f"{start_s * 1000:.1f} ms"),
        ("computing on all cores", span(compute_s)),
        ("computing on one core", span(args.songs * song_s)),
        ("all WAV files", f"{total_bytes / 1e12:.1f} TB"),
        (f"writing all WAV files at {args.store_mb_s:.0f} MB/s", span(write_s)),
        ("output of all cores at full speed", f"{total_bytes / compute_s / 1e9:.0f} GB/s"),
        (f"one task per song at {args.tasks_per_s:.0f} tasks/s", span(start_all_s)),
        ("songs in a petabyte of WAV", f"{1e15 / song_bytes / 1e6:.0f} million"),
        ("computing a petabyte on all cores", span(1e15 / song_bytes * song_s / args.cores)),
        ("writing a petabyte", span(1e15 / args.store_mb_s / 1e6)),
    ]
    for name, value in rows:
        print(f"{name:44} {value}")
    limits = {
        "the cores": compute_s,
        "the storage": write_s,
        "the scheduler, with one task per song": start_all_s,
    }
    print("the first bottleneck:", max(limits, key=limits.get))


if __name__ == "__main__":
    main()
