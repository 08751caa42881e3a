"""One run of another simulator: peers.py SIMULATOR FOLDER THREADS.

FOLDER holds city.net.xml and city.rou.xml for SUMO, city.json for UXsim. Prints a line of JSON: how
long the run took, without reading and writing, and what came of it.
"""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as xml


def uxsim(folder, threads):
    from uxsim import World

    with open(os.path.join(folder, "city.json")) as file:
        city = json.load(file)
    world = World(
        name="", deltan=1, reaction_time=1, tmax=city["seconds"], print_mode=0, save_mode=0,
        show_mode=0, random_seed=1, cpp=True, threads=threads, no_cyclic_routing=True,
    )
    nodes = [world.addNode(str(i), x, y) for i, (x, y) in enumerate(city["nodes"])]
    for i, (begin, end, length, speed, lanes) in enumerate(city["links"]):
        world.addLink(
            str(i), nodes[begin], nodes[end], length=length, free_flow_speed=speed,
            jam_density_per_lane=1 / 7.5, number_of_lanes=lanes,
        )
    for depart, begin, end in city["trips"]:
        world.addVehicle(nodes[begin], nodes[end], depart)
    begun = time.perf_counter()
    world.exec_simulation()
    seconds = time.perf_counter() - begun
    stats = world.analyzer.basic_to_pandas().iloc[0]
    trips = int(stats["completed_trips"])
    # UXsim does not report the distance, so use the length of the quickest routes.
    return {
        "seconds": seconds,
        "trips": trips,
        "vehicle_seconds": float(stats["total_travel_time"]),
        "metres": city["metres"] * trips / len(city["trips"]),
    }


def sumo(folder, threads):
    import sumo as package

    program = os.path.join(package.SUMO_HOME, "bin", "sumo")
    with open(os.path.join(folder, "city.json")) as file:
        end = json.load(file)["seconds"]
    statistics = os.path.join(folder, f"statistics-{os.getpid()}.xml")
    command = [
        program, "--mesosim", "--threads", str(threads), "--end", str(end), "--no-step-log",
        "--net-file", os.path.join(folder, "city.net.xml"),
        "--route-files", os.path.join(folder, "city.rou.xml"),
        "--statistic-output", statistics, "--duration-log.statistics", "--no-warnings",
        "--time-to-teleport", "300", "--xml-validation", "never",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    root = xml.parse(statistics).getroot()
    os.remove(statistics)
    trips = root.find("vehicleTripStatistics").attrib
    count = int(trips["count"])
    begin, end = (float(root.find("performance").get(name)) for name in ("clockBegin", "clockEnd"))
    return {
        "seconds": end - begin,
        "trips": count,
        "vehicle_seconds": float(trips["totalTravelTime"]),
        "metres": float(trips["routeLength"]) * count,
    }


if __name__ == "__main__":
    run = {"uxsim": uxsim, "sumo": sumo}[sys.argv[1]]
    print(json.dumps(run(sys.argv[2], int(sys.argv[3]))))
