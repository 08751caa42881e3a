"""A study: how much time do drivers lose if a road of a city is closed in the rush hour?

Three variants are compared: the open road, the closed road where cars wait, and the closed road
with a diversion. Each variant runs with several seeds, because one run is no result.

    python study.py                     a small city
    python study.py NETWORK DEMAND      your own network and demand
"""

import sys

import numpy as np

from creel_traffic import Simulation

SEEDS = (1, 2, 3)
CLOSED_FROM, CLOSED_UNTIL, END = 900, 2700, 5400


def simulation(seed):
    """Returns the simulation before the first car departs."""
    if len(sys.argv) == 3:
        return Simulation(sys.argv[1], sys.argv[2], seed=seed)
    return Simulation(city=(12, 12), cars=4000, demand="gravity", seed=seed)


def busiest_road(seed):
    """Returns the road that most cars enter before the closure."""
    run = simulation(seed)
    run.run(CLOSED_FROM)
    edges = run.take_edge_data()
    return run.roads[int(edges["entered"].argmax())]


def variant(seed, road, is_closed, is_diverted):
    """Returns the mean duration and time loss of the trips, and how many have ended."""
    run = simulation(seed)
    run.run(CLOSED_FROM)
    if is_closed:
        run.set_closed(road, True, reroute=is_diverted)
    while run.now < CLOSED_UNTIL:
        run.run(60)
        if is_closed and is_diverted:
            # Cars depart all the time, so the diversion must be announced again and again.
            run.reroute_around(road)
    if is_closed:
        run.set_closed(road, False)
    run.run(END - run.now)
    trips = run.take_trips()
    delay = trips["depart_delay"] + trips["time_loss"]
    return trips["duration"].mean(), delay.mean(), len(trips)


def main():
    variants = {
        "open": (False, False),
        "closed, cars wait": (True, False),
        "closed, with a diversion": (True, True),
    }
    roads = [busiest_road(seed) for seed in SEEDS]
    print(f"{'variant':26} {'trip s':>8} {'delay s':>8} {'± s':>6} {'trips':>8}")
    for name, (is_closed, is_diverted) in variants.items():
        results = [
            variant(seed, road, is_closed, is_diverted) for seed, road in zip(SEEDS, roads)
        ]
        durations, delays, trips = np.array(results).T
        spread = delays.std(ddof=1) / np.sqrt(len(SEEDS))
        print(
            f"{name:26} {durations.mean():8.1f} {delays.mean():8.1f} {spread:6.1f} "
            f"{trips.mean():8.0f}"
        )


if __name__ == "__main__":
    main()
