"""Distribute units over lists that take about equally long, for work.py.

usage: creel-vgm units --skip-done -r /shared/music -o /shared/out | chunks.py COUNT DIR

Each list, DIR/0 to DIR/COUNT-1, has one unit per line. Units that are done already are left out.
We assign the longest units first, each to the list with the least work so far. Therefore, no list
takes more than a third longer than with the best possible distribution (Graham, "Bounds on
Multiprocessing Timing Anomalies", 1969). A unit that cannot be read is also put into a list, and
work.py then reports that list as failed.

Exit codes: 0 done; 2 the call or the units are wrong; 75 a list could not be written.
"""

import argparse
import heapq
import json
import os
import sys


def report(message):
    print(f"chunks.py: {message}", file=sys.stderr)


def pending_units(lines):
    """Returns the units that are not done yet, the longest first."""
    units = [json.loads(line) for line in lines if line.strip()]
    pending = [unit for unit in units if unit["action"] != "skip"]
    pending.sort(key=lambda unit: -unit["cost_ns"])
    unreadable = sum(unit["action"] == "fail" for unit in pending)
    if unreadable:
        report(f"cannot read {unreadable} of the units: work.py will exit with 1 for their lists")
    return pending


def distribute(units, count):
    """Returns the cost, the number and the lines of each list."""
    lists = [(0, number, []) for number in range(count)]
    for unit in units:
        cost, number, chosen = heapq.heappop(lists)
        # We make paths absolute, because work.py may run in another folder.
        for name in ("song", "output"):
            if name in unit:
                unit[name] = os.path.abspath(unit[name])
        chosen.append(json.dumps(unit))
        heapq.heappush(lists, (cost + unit["cost_ns"], number, chosen))
    return sorted(lists, key=lambda entry: entry[1])


def positive(text):
    """Parses a number of at least 1."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    help_count = "the number of lists, at least 1"
    parser.add_argument("count", type=positive, metavar="COUNT", help=help_count)
    parser.add_argument("folder", metavar="DIR", help="the folder for the lists")
    args = parser.parse_args()
    try:
        lists = distribute(pending_units(sys.stdin), args.count)
    except (ValueError, KeyError, TypeError) as error:
        expected = "expected the output of `creel-vgm units` or sweep.py"
        report(f"cannot read the units: {expected}: {error!r}")
        return 2
    try:
        os.makedirs(args.folder, exist_ok=True)
        for cost, number, chosen in lists:
            with open(os.path.join(args.folder, str(number)), "w") as file:
                file.writelines(f"{unit}\n" for unit in chosen)
            print(f"{number}: {len(chosen)} units, {cost / 1e9:.1f} s expected")
    except OSError as error:
        report(f"cannot write the lists: {error}")
        return 75
    return 0


if __name__ == "__main__":
    sys.exit(main())
