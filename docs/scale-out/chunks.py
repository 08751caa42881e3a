"""Deals units out into lists that take about as long as each other, for work.py.

usage: creel-vgm units --skip-done -r /shared/music -o /shared/out | chunks.py COUNT DIR

Each list, DIR/0 to DIR/COUNT-1, has a unit a line; what is done already is in none. The longest go
first, each to the list that has least by then; so no list takes longer than the best division by
more than a third. What cannot be read is in a list, too, which then ends as failed.

Exit codes: 0; 2 the call or the units are wrong; 75 a list could not be written.

Source: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.
"""

import argparse
import heapq
import json
import os
import sys


def say(what):
    print(f"chunks.py: {what}", file=sys.stderr)


def due_of(lines):
    """What is to be done, the longest first."""
    units = [json.loads(line) for line in lines if line.strip()]
    due = [unit for unit in units if unit["action"] != "skip"]
    due.sort(key=lambda unit: -unit["cost_ns"])
    failing = sum(unit["action"] == "fail" for unit in due)
    if failing:
        say(f"{failing} cannot be read: their lists will end with 1")
    return due


def deal(due, count):
    lists = [(0, number, []) for number in range(count)]
    for unit in due:
        cost, number, chosen = heapq.heappop(lists)
        # A list is read elsewhere, by whoever stands in another folder.
        for name in ("song", "output"):
            if name in unit:
                unit[name] = os.path.abspath(unit[name])
        chosen.append(json.dumps(unit))
        heapq.heappush(lists, (cost + unit["cost_ns"], number, chosen))
    return sorted(lists, key=lambda one: one[1])


def some(text):
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=some, metavar="COUNT", help="how many lists, 1 or more")
    parser.add_argument("folder", metavar="DIR")
    told = parser.parse_args()
    try:
        lists = deal(due_of(sys.stdin), told.count)
    except (ValueError, KeyError, TypeError) as error:
        say(f"not what `creel-vgm units` or sweep.py prints: {error!r}")
        return 2
    try:
        os.makedirs(told.folder, exist_ok=True)
        for cost, number, chosen in lists:
            with open(os.path.join(told.folder, str(number)), "w") as file:
                file.writelines(f"{unit}\n" for unit in chosen)
            print(f"{number}: {len(chosen)} units, {cost / 1e9:.1f} s expected")
    except OSError as error:
        say(error)
        return 75
    return 0


if __name__ == "__main__":
    sys.exit(main())
