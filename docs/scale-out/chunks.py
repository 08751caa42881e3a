"""Deals units out into lists that take about as long as each other, for work.py.

usage: creel-vgm units --skip-done -r /shared/music -o /shared/out | chunks.py COUNT DIR

Each list, DIR/0 to DIR/COUNT-1, has a unit a line; what is done already is in none. The longest go
first, each to the list that has least by then; so no list takes longer than the best division by
more than a third.

Source: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.
"""

import heapq
import json
import os
import sys


def main(count, folder):
    units = [json.loads(line) for line in sys.stdin]
    due = [unit for unit in units if unit["action"] in ("render", "run")]
    due.sort(key=lambda unit: -unit["cost_ns"])
    lists = [(0, number, []) for number in range(count)]
    for unit in due:
        cost, number, chosen = heapq.heappop(lists)
        # A list is read elsewhere, by whoever stands in another folder.
        for name in ("song", "output"):
            if name in unit:
                unit[name] = os.path.abspath(unit[name])
        chosen.append(json.dumps(unit))
        heapq.heappush(lists, (cost + unit["cost_ns"], number, chosen))
    os.makedirs(folder, exist_ok=True)
    for cost, number, chosen in sorted(lists, key=lambda one: one[1]):
        with open(os.path.join(folder, str(number)), "w") as file:
            file.writelines(f"{unit}\n" for unit in chosen)
        print(f"{number}: {len(chosen)} units, {cost / 1e9:.1f} s expected")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
