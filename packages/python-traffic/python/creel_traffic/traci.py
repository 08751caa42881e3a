"""The commands of SUMO's TraCI that are used most, for one simulation in this process.

A script that uses only these commands runs unchanged after `import creel_traffic.traci as traci`.
The options of `start` that have no meaning here are ignored, and `ignored` lists them. A name that
is missing here raises `AttributeError`, so no command is silently without effect.

The model is a queue model without lanes: lane 0 stands for all lanes of a road, and a traffic light
has one letter per incoming road, in the order of `trafficlight.getControlledLanes`.
"""

import math as _math
import xml.etree.ElementTree as _xml
from pathlib import Path as _Path

import numpy as _np

from .core import Simulation as _Simulation

INVALID_DOUBLE_VALUE = -1073741824.0


class TraCIException(Exception):
    """A command failed."""


class FatalTraCIError(TraCIException):
    """There is no simulation, because it was not started or was closed."""


_run = None
#: The options of the last `start` or `load` that were ignored.
ignored = []


class _Running:
    """A simulation, with the positions and the events of its current step."""

    def __init__(self, arguments):
        options = _options(arguments)
        self.step_s = float(options.pop("step-length", 1.0))
        begin = float(options.pop("begin", 0.0))
        self.end = options.pop("end", None)
        known = {}
        if "time-to-teleport" in options:
            limit = float(options.pop("time-to-teleport"))
            # A negative limit means that no car ever teleports.
            known["stuck"] = limit if limit > 0 else 100_000.0
        if "seed" in options:
            known["seed"] = int(options.pop("seed"))
        if "threads" in options:
            known["workers"] = int(options.pop("threads"))
        network = options.pop("net-file", None)
        if network is None:
            raise TraCIException("no network: pass --net-file, or a configuration that names one")
        # As in SUMO, a file can use the types of vehicles of the files before it.
        files = [options.pop(name, "") for name in ("additional-files", "route-files")]
        demand = _files(",".join(files))
        global ignored
        ignored = sorted(options)
        try:
            self.simulation = _Simulation(network, demand or None, **known)
        except ValueError as error:
            raise TraCIException(str(error)) from None
        self.roads = self.simulation.roads
        self.lengths = self.simulation.lengths()
        self.routes = {}
        self.lights = {}
        self._changed()
        if begin > 0:
            self.simulation.run(begin)
        self.events = self.simulation.take_events()

    def _changed(self):
        self._positions = None
        self._rows = None
        self._by_road = None

    def step(self, until):
        now = self.simulation.now
        seconds = self.step_s if until <= 0 else until - now
        if seconds < 0:
            raise TraCIException(f"the time {until} has passed")
        self._changed()
        self.simulation.run(seconds)
        self.events = self.simulation.take_events()

    @property
    def positions(self):
        if self._positions is None:
            self._positions = self.simulation.positions()
        return self._positions

    def position(self, vehicle):
        """Returns x, y, the road, the direction and the speed of a car, or None."""
        number = _call(self.simulation.car_number, vehicle)
        if self._rows is None:
            # A script asks for many cars in each step, and elements of an array are slow to get.
            cars = self.positions["car"].tolist()
            names = ("x", "y", "road", "heading", "speed")
            rows = zip(*(self.positions[name].tolist() for name in names))
            self._rows = dict(zip(cars, rows))
        return self._rows.get(number)

    def on_road(self, edge):
        """Returns the positions of the cars on a road, and the number of the road."""
        road = _call(self.simulation.road_number, edge)
        if self._by_road is None:
            order = _np.argsort(self.positions["road"], kind="stable")
            rows = self.positions[order]
            self._by_road = rows, _np.searchsorted(rows["road"], _np.arange(len(self.roads) + 1))
        rows, begins = self._by_road
        return rows[begins[road]:begins[road + 1]], road

    def names(self, kind):
        cars = self.events["car"][self.events["kind"] == kind].tolist()
        return tuple(self.simulation.car_name(car) for car in cars)


def _files(text):
    """Returns the files of a list that is separated by commas."""
    return [file.strip() for file in text.split(",") if file.strip()]


def _options(arguments):
    """Returns the options of a command line, and those of the configuration that it names."""
    short = {"-n": "net-file", "-r": "route-files", "-a": "additional-files",
             "-c": "configuration-file", "-b": "begin", "-e": "end"}
    long = {"net": "net-file", "routes": "route-files", "additional": "additional-files"}
    options = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        name, _, value = word.partition("=")
        name = short.get(name, name.lstrip("-"))
        if not value and rest and not rest[0].startswith("--") and rest[0] not in short:
            value = rest.pop(0)
        options[long.get(name, name)] = value
    path = options.pop("configuration-file", None)
    if path is not None:
        read = {}
        for element in _xml.parse(path).iter():
            name, value = long.get(element.tag, element.tag), element.get("value")
            if value is not None:
                if name in long.values():
                    value = ",".join(str(_Path(path).parent / file) for file in _files(value))
                read[name] = value
        options = {**read, **options}
    return options


def _current():
    if _run is None:
        raise FatalTraCIError("not connected: call start first")
    return _run


def _call(function, *arguments):
    try:
        return function(*arguments)
    except KeyError as error:
        raise TraCIException(error.args[0]) from None
    except ValueError as error:
        raise TraCIException(str(error)) from None


def start(cmd, *_arguments, **_settings):
    """Starts a simulation with a command line of SUMO, whose first word is ignored."""
    global _run
    _run = _Running(cmd[1:])
    return (0, "creel-traffic")


def load(args):
    """Replaces the simulation by another one."""
    global _run
    _current()
    _run = _Running(args)


def close(wait=True):
    """Ends the simulation."""
    global _run
    _run = None


def isLoaded():
    """Whether there is a simulation."""
    return _run is not None


def simulationStep(step=0):
    """Runs one step, or until the given time in seconds."""
    _current().step(float(step))


def getVersion():
    """The version of the interface, and the name of the simulator."""
    return (0, "creel-traffic")


def _road_of(lane):
    """Returns the road of a lane."""
    road, _, number = lane.rpartition("_")
    if not number.isdigit():
        raise TraCIException(f"there is no lane {lane}")
    return road


class _Simulation_:
    """Commands about the whole simulation."""

    def getTime(self):
        return _current().simulation.now

    def getCurrentTime(self):
        return round(_current().simulation.now * 1000)

    def getDeltaT(self):
        return _current().step_s

    def getEndTime(self):
        end = _current().end
        return -1.0 if end is None else float(end)

    def getMinExpectedNumber(self):
        return _current().simulation.unfinished

    def getLoadedNumber(self):
        return len(_current().simulation)

    def getDepartedIDList(self):
        run = _current()
        return tuple(dict.fromkeys(run.names(0)))

    def getDepartedNumber(self):
        return len(self.getDepartedIDList())

    def getArrivedIDList(self):
        return _current().names(3)

    def getArrivedNumber(self):
        return len(self.getArrivedIDList())

    def getStartingTeleportIDList(self):
        return _current().names(4)

    def getStartingTeleportNumber(self):
        return len(self.getStartingTeleportIDList())

    def saveState(self, fileName):
        _current().simulation.save(fileName)

    def loadState(self, fileName):
        run = _current()
        _call(run.simulation.load, fileName)
        run._changed()
        run.events = run.simulation.take_events()

    def findRoute(self, *_):
        raise TraCIException("findRoute is not available: use vehicle.changeTarget")


class _Vehicle:
    """Commands about cars."""

    def getIDList(self):
        run = _current()
        cars = _np.sort(run.positions["car"]).tolist()
        return tuple(run.simulation.car_name(car) for car in cars)

    def getIDCount(self):
        return len(_current().positions)

    def getPosition(self, vehID):
        row = _current().position(vehID)
        if row is None:
            return (INVALID_DOUBLE_VALUE, INVALID_DOUBLE_VALUE)
        x, y, _road, _heading, _speed = row
        return (x, y)

    def getAngle(self, vehID):
        """The direction in degrees, clockwise from north."""
        row = _current().position(vehID)
        if row is None:
            return INVALID_DOUBLE_VALUE
        _x, _y, _road, heading, _speed = row
        return (90.0 - _math.degrees(heading)) % 360.0

    def getSpeed(self, vehID):
        row = _current().position(vehID)
        if row is None:
            return INVALID_DOUBLE_VALUE
        _x, _y, _road, _heading, speed = row
        return speed

    def getRoadID(self, vehID):
        run = _current()
        row = run.position(vehID)
        if row is None:
            return ""
        _x, _y, road, _heading, _speed = row
        return run.roads[road]

    def getLaneID(self, vehID):
        road = self.getRoadID(vehID)
        return road and road + "_0"

    def getLaneIndex(self, vehID):
        return 0 if self.getRoadID(vehID) else -1073741824

    def getRoute(self, vehID):
        """The rest of the route, beginning with the road that the car is on."""
        run = _current()
        _state, road = _call(run.simulation.whereabouts, vehID)
        rest = _call(run.simulation.route_of, vehID) or []
        return tuple([road] if road else []) + tuple(rest)

    def setRoute(self, vehID, edgeList):
        run = _current()
        _state, road = _call(run.simulation.whereabouts, vehID)
        edges = list(edgeList)
        if not edges or edges[0] != road:
            raise TraCIException(f"the route of {vehID} must begin with its road {road}")
        _call(run.simulation.set_route, vehID, edges[1:])

    def changeTarget(self, vehID, edgeID):
        _call(_current().simulation.set_destination, vehID, edgeID)

    def add(self, vehID, routeID, typeID="DEFAULT_VEHTYPE", depart=None, **_settings):
        run = _current()
        if depart not in (None, "now") and float(depart) > run.simulation.now:
            raise TraCIException("a car can only be added now: add it when it departs")
        if routeID not in run.routes:
            raise TraCIException(f"there is no route {routeID}")
        _call(run.simulation.add, vehID, run.routes[routeID])

    def remove(self, vehID, reason=3):
        run = _current()
        if not _call(run.simulation.remove, vehID):
            raise TraCIException(f"the car {vehID} has arrived")
        run._changed()


class _Route:
    """Commands about routes."""

    def add(self, routeID, edges):
        run = _current()
        for edge in edges:
            _call(run.simulation.road_number, edge)
        run.routes[routeID] = list(edges)

    def getIDList(self):
        return tuple(_current().routes)

    def getEdges(self, routeID):
        run = _current()
        if routeID not in run.routes:
            raise TraCIException(f"there is no route {routeID}")
        return tuple(run.routes[routeID])


class _Edge:
    """Commands about roads."""

    def getIDList(self):
        return tuple(_current().roads)

    def getIDCount(self):
        return len(_current().roads)

    def getLastStepVehicleNumber(self, edgeID):
        rows, _road = _current().on_road(edgeID)
        return len(rows)

    def getLastStepVehicleIDs(self, edgeID):
        run = _current()
        rows, _road = run.on_road(edgeID)
        return tuple(run.simulation.car_name(car) for car in rows["car"].tolist())

    def getLastStepHaltingNumber(self, edgeID):
        rows, _road = _current().on_road(edgeID)
        return int((rows["speed"] < 0.1).sum())

    def getLastStepMeanSpeed(self, edgeID):
        run = _current()
        rows, _road = run.on_road(edgeID)
        return float(rows["speed"].mean()) if len(rows) else run.simulation.speed_of(edgeID)

    def getTraveltime(self, edgeID):
        run = _current()
        _rows, road = run.on_road(edgeID)
        return float(run.lengths[road]) / max(self.getLastStepMeanSpeed(edgeID), 0.1)

    def setMaxSpeed(self, edgeID, speed):
        run = _current()
        _call(run.simulation.set_speed, edgeID, float(speed))
        run._changed()

    def setDisallowed(self, edgeID, disallowedClasses):
        classes = [disallowedClasses] if isinstance(disallowedClasses, str) else disallowedClasses
        if not {"passenger", "all"} & set(classes):
            raise TraCIException("only passenger cars are simulated")
        _call(_current().simulation.set_closed, edgeID, True, True)

    def setAllowed(self, edgeID, allowedClasses):
        classes = [allowedClasses] if isinstance(allowedClasses, str) else list(allowedClasses)
        is_closed = bool(classes) and not {"passenger", "all"} & set(classes)
        _call(_current().simulation.set_closed, edgeID, is_closed, True)


class _Lane:
    """Commands about lanes. A lane stands for its road."""

    def getLength(self, laneID):
        run = _current()
        return float(run.lengths[_call(run.simulation.road_number, _road_of(laneID))])

    def getMaxSpeed(self, laneID):
        return _call(_current().simulation.speed_of, _road_of(laneID))

    def getEdgeID(self, laneID):
        return _road_of(laneID)


class _TrafficLight:
    """Commands about traffic lights."""

    def getIDList(self):
        return tuple(_current().simulation.lights())

    def getIDCount(self):
        return len(self.getIDList())

    def getControlledLanes(self, tlsID):
        return tuple(road + "_0" for road, _ in _call(_current().simulation.approaches, tlsID))

    def getRedYellowGreenState(self, tlsID):
        simulation = _current().simulation
        cycle, greens, offset = _call(simulation.program, tlsID)
        phase = (simulation.now - offset) % cycle
        letters = []
        for _road, approach in simulation.approaches(tlsID):
            is_green = any(begin <= phase < end for begin, end in greens[approach])
            letters.append("G" if is_green else "r")
        return "".join(letters)

    def setRedYellowGreenState(self, tlsID, state):
        """Keeps the state until it is set again, or until `setProgram`."""
        simulation = _current().simulation
        approaches = _call(simulation.approaches, tlsID)
        if len(state) != len(approaches):
            raise TraCIException(f"{tlsID} needs {len(approaches)} letters, one per incoming road")
        _cycle, greens, _offset = _call(simulation.program, tlsID)
        wanted = {}
        for (road, approach), letter in zip(approaches, state):
            is_green = letter in "gGyYoO"
            if wanted.setdefault(approach, is_green) != is_green:
                raise TraCIException(f"{road} has green together with another road of {tlsID}")
        program = [[(0.0, 1000.0)] if wanted.get(one) else [(0.0, 0.0)] for one in range(len(greens))]
        _call(simulation.set_program, tlsID, 1000.0, program, 0.0)

    def setProgram(self, tlsID, programID):
        """Restores the program of the network, whatever its name."""
        _call(_current().simulation.set_program, tlsID)


simulation = _Simulation_()
vehicle = _Vehicle()
route = _Route()
edge = _Edge()
lane = _Lane()
trafficlight = _TrafficLight()
