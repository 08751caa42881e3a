"""List the units of a parameter sweep for chunks.py and work.py, one JSON line per combination.

usage: sweep.py OUT NAME=VALUE,… … -- creel-traffic run …

    sweep.py /shared/sweep cars=1000,2000,4000 seed=1,2,3 -- creel-traffic run --city 20x20 --seconds 600

Each unit is the command with `--NAME VALUE` for each name, and with `--format json`. The name of its
output file contains the values. As the expected cost of a unit, we use the product of all its
numbers except the seed.
"""

import itertools
import json
import math
import os
import sys


def main(out, *words):
    sweep, command = words[: words.index("--")], list(words[words.index("--") + 1 :])
    names, values = zip(*(word.split("=", 1) for word in sweep))
    for chosen in itertools.product(*(value.split(",") for value in values)):
        pairs = list(zip(names, chosen))
        flags = [word for name, value in pairs for word in (f"--{name}", value)]
        output = os.path.join(out, ",".join(f"{name}={value}" for name, value in pairs) + ".json")
        sizes = [float(value) for name, value in pairs if name != "seed" and value.isdigit()]
        unit = {
            "command": [*command, *flags, "--format", "json", "-q"],
            "output": output,
            "action": "skip" if os.path.exists(output) else "run",
            "cost_ns": math.prod(sizes),
        }
        print(json.dumps(unit))


if __name__ == "__main__":
    main(*sys.argv[1:])
