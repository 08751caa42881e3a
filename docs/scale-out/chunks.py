"""Deals units out into lists that take about as long as each other.

usage: creel-vgm units -r music -o out | chunks.py COUNT DIR

Each list, DIR/0 to DIR/COUNT-1, has a song a line. The longest go first, each to the list that has
least by then; so no list takes longer than the best division by more than a third.

Source: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.
"""

import heapq
import json
import os
import sys


def main(count, folder):
    units = [json.loads(line) for line in sys.stdin]
    due = [unit for unit in units if unit["action"] == "render"]
    due.sort(key=lambda unit: -unit["cost_ns"])
    lists = [(0, number, []) for number in range(count)]
    for unit in due:
        cost, number, songs = heapq.heappop(lists)
        songs.append(unit["song"])
        heapq.heappush(lists, (cost + unit["cost_ns"], number, songs))
    os.makedirs(folder, exist_ok=True)
    for cost, number, songs in sorted(lists, key=lambda one: one[1]):
        with open(os.path.join(folder, str(number)), "w") as file:
            file.writelines(f"{song}\n" for song in songs)
        print(f"{number}: {len(songs)} songs, {cost / 1e9:.1f} s expected")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
