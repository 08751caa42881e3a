"""Tests of the simulation and of the commands of TraCI. Run them with `python -m unittest`."""

import tempfile
import unittest
from pathlib import Path

import numpy as np

import creel_traffic.traci as traci
from creel_traffic import Simulation, dtypes

# Two ways from `a` to `d`: by `b`, or the longer one by `c1` and `c2`. A light stops `a`.
NETWORK = """<net version="1.16">
    <edge id="a" from="A" to="B" priority="1"><lane id="a_0" index="0" speed="20" length="200"/></edge>
    <edge id="b" from="B" to="C" priority="1"><lane id="b_0" index="0" speed="20" length="200"/></edge>
    <edge id="c1" from="B" to="E" priority="1"><lane id="c1_0" index="0" speed="20" length="300"/></edge>
    <edge id="c2" from="E" to="C" priority="1"><lane id="c2_0" index="0" speed="20" length="300"/></edge>
    <edge id="d" from="C" to="D" priority="1"><lane id="d_0" index="0" speed="20" length="200"/></edge>
    <tlLogic id="B" type="static" programID="0" offset="0">
        <phase duration="60" state="GG"/>
    </tlLogic>
    <junction id="A" type="priority" x="0" y="0"/>
    <junction id="B" type="traffic_light" x="200" y="0"/>
    <junction id="C" type="priority" x="400" y="0"/>
    <junction id="D" type="priority" x="600" y="0"/>
    <junction id="E" type="priority" x="300" y="250"/>
    <connection from="a" to="b" fromLane="0" toLane="0" tl="B" linkIndex="0" dir="s"/>
    <connection from="a" to="c1" fromLane="0" toLane="0" tl="B" linkIndex="1" dir="l"/>
    <connection from="b" to="d" fromLane="0" toLane="0" dir="s"/>
    <connection from="c1" to="c2" fromLane="0" toLane="0" dir="s"/>
    <connection from="c2" to="d" fromLane="0" toLane="0" dir="s"/>
</net>
"""
DEMAND = "<routes>" + "".join(
    f'<vehicle id="car{index}" depart="{index * 5}"><route edges="a b d"/></vehicle>'
    for index in range(10)
) + "</routes>"


class OnFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.network = self.folder / "town.net.xml"
        self.demand = self.folder / "trips.rou.xml"
        self.network.write_text(NETWORK)
        self.demand.write_text(DEMAND)

    def simulation(self, **options):
        return Simulation(self.network, str(self.demand), **options)


class Runs(OnFiles):
    def test_trips_have_the_times_of_free_flow(self):
        simulation = self.simulation(workers=1)
        simulation.run(200)
        trips = simulation.take_trips()
        self.assertEqual(trips.dtype, dtypes()["trips"])
        self.assertEqual(len(trips), 10)
        np.testing.assert_allclose(trips["duration"], 30.0)
        np.testing.assert_allclose(trips["length"], 600.0)
        np.testing.assert_allclose(trips["time_loss"], 0.0)
        self.assertEqual([simulation.car_name(car) for car in trips["car"]][:2], ["car0", "car1"])
        self.assertEqual(len(simulation.take_trips()), 0)

    def test_arrays_own_the_memory_that_rust_has_filled(self):
        simulation = self.simulation()
        simulation.run(40)
        positions = simulation.positions()
        self.assertFalse(positions.flags.owndata)
        self.assertIsNotNone(positions.base)
        self.assertEqual(positions.dtype.itemsize, 32)
        self.assertGreater(len(positions), 2)
        self.assertEqual(simulation.occupancy().sum(), len(positions))
        west = simulation.positions([-1.0, -1.0, 200.0, 1.0])
        np.testing.assert_array_equal(west, positions[positions["x"] <= 200.0])

    def test_edge_data_counts_the_cars_of_each_interval(self):
        simulation = self.simulation()
        simulation.run(30)
        first = simulation.take_edge_data()
        simulation.run(170)
        second = simulation.take_edge_data()
        road = simulation.road_number("b")
        self.assertEqual(first["entered"][road] + second["entered"][road], 10)
        total = first["seconds"] + second["seconds"]
        np.testing.assert_allclose(total[road], 100.0)
        np.testing.assert_allclose(first["took"][road] + second["took"][road], 100.0)

    def test_the_hash_does_not_depend_on_workers_and_steps(self):
        hashes = set()
        for workers, step in ((1, 100), (2, 100), (3, 0.05)):
            simulation = Simulation(city=(8, 8), cars=500, demand="gravity", workers=workers)
            while simulation.now < 99.99:
                simulation.run(step)
            hashes.add(simulation.hash())
        self.assertEqual(len(hashes), 1)

    def test_a_copy_and_a_saved_state_continue_alike(self):
        simulation = self.simulation()
        simulation.run(17)
        copy = simulation.copy()
        simulation.save(self.folder / "state")
        simulation.run(30)
        copy.run(30)
        self.assertEqual(simulation.hash(), copy.hash())
        copy.load(self.folder / "state")
        self.assertEqual(copy.now, 17)
        copy.run(30)
        self.assertEqual(simulation.hash(), copy.hash())

    def test_a_restored_state_continues_like_its_copy(self):
        simulation = self.simulation()
        simulation.run(17)
        before = simulation.copy()
        simulation.add("new", ["b", "d"])
        simulation.run(30)
        simulation.restore(before)
        self.assertEqual((simulation.now, len(simulation)), (17, 10))
        with self.assertRaises(KeyError):
            simulation.whereabouts("new")
        for one in (simulation, before):
            one.run(60)
        self.assertEqual(simulation.hash(), before.hash())
        np.testing.assert_array_equal(simulation.take_trips(), before.take_trips())


class Control(OnFiles):
    def test_cars_drive_around_a_closed_road(self):
        simulation = self.simulation()
        simulation.run(8)
        self.assertEqual(simulation.set_closed("b"), 2)
        self.assertTrue(simulation.is_closed("b"))
        self.assertEqual(simulation.route_of("car0"), ["c1", "c2", "d"])
        simulation.set_closed("b", False)
        simulation.run(200)
        self.assertEqual(simulation.totals()["arrived"], 10)

    def test_a_slower_road_takes_longer(self):
        simulation = self.simulation()
        simulation.set_speed("b", 10.0)
        np.testing.assert_allclose(simulation.speeds()[simulation.road_number("b")], 10.0)
        simulation.run(200)
        np.testing.assert_allclose(simulation.take_trips()["duration"], 40.0)

    def test_cars_can_be_added_redirected_and_removed(self):
        simulation = self.simulation()
        simulation.add("new", ["a", "b", "d"])
        simulation.run(3)
        self.assertEqual(simulation.whereabouts("new"), ("on road", "a"))
        simulation.set_destination("new", "c2")
        self.assertEqual(simulation.route_of("new"), ["c1", "c2"])
        self.assertTrue(simulation.remove("new"))
        self.assertFalse(simulation.remove("new"))
        with self.assertRaises(ValueError):
            simulation.add("car3", ["a"])

    def test_a_demand_can_consist_of_several_files(self):
        types = self.folder / "types.add.xml"
        types.write_text('<additional><vType id="slow" maxSpeed="10"/></additional>')
        self.demand.write_text(DEMAND.replace("<vehicle ", '<vehicle type="slow" '))
        simulation = Simulation(self.network, [types, self.demand])
        self.assertEqual(simulation.unused, [])
        simulation.run(300)
        self.assertGreaterEqual(simulation.take_trips()["duration"].min(), 60.0)
        self.assertEqual(simulation.unfinished, 0)
        with self.assertRaises(ValueError):
            Simulation(self.network, types)

    def test_names_that_do_not_exist_are_errors(self):
        simulation = self.simulation()
        with self.assertRaises(KeyError):
            simulation.set_closed("nowhere")
        with self.assertRaises(KeyError):
            simulation.route_of("nobody")
        with self.assertRaises(ValueError):
            Simulation("missing.net.xml")

    def test_parts_that_are_not_used_are_listed(self):
        self.demand.write_text(DEMAND.replace("<routes>", '<routes><person id="p" depart="0"/>'))
        self.assertEqual(self.simulation().unused, ["person (1)"])


class Traci(OnFiles):
    def start(self, *options):
        traci.start(["sumo", "-n", str(self.network), "-r", str(self.demand), *options])
        self.addCleanup(traci.close)

    def test_a_loop_of_steps_ends_when_all_cars_have_arrived(self):
        self.start("--no-step-log", "--start")
        self.assertEqual(traci.ignored, ["no-step-log", "start"])
        departed, arrived = [], []
        while traci.simulation.getMinExpectedNumber() > 0:
            traci.simulationStep()
            departed += traci.simulation.getDepartedIDList()
            arrived += traci.simulation.getArrivedIDList()
            self.assertLess(traci.simulation.getTime(), 200)
        self.assertEqual(departed, [f"car{index}" for index in range(10)])
        self.assertEqual(arrived, departed)

    def test_files_can_be_lists_and_come_from_a_configuration(self):
        types = self.folder / "types.add.xml"
        types.write_text('<additional><vType id="slow" maxSpeed="10"/></additional>')
        self.demand.write_text(DEMAND.replace("<vehicle ", '<vehicle type="slow" '))
        config = self.folder / "town.sumocfg"
        config.write_text('<configuration><input><net-file value="town.net.xml"/>'
                          '<route-files value="types.add.xml, trips.rou.xml"/></input></configuration>')
        lists = (["-c", str(config)],
                 ["-n", str(self.network), "-r", f"{types},{self.demand}"],
                 ["-n", str(self.network), "-a", str(types), "-r", str(self.demand)])
        for options in lists:
            traci.start(["sumo", *options])
            self.addCleanup(traci.close)
            traci.simulationStep(5)
            self.assertEqual(traci.vehicle.getSpeed("car0"), 10.0)

    def test_roads_have_their_own_cars(self):
        self.start()
        traci.simulationStep(26)
        on_roads = {road: traci.edge.getLastStepVehicleIDs(road) for road in traci.edge.getIDList()}
        self.assertEqual(set(sum(on_roads.values(), ())), set(traci.vehicle.getIDList()))
        for road, cars in on_roads.items():
            self.assertEqual(traci.edge.getLastStepVehicleNumber(road), len(cars))
            for car in cars:
                self.assertEqual(traci.vehicle.getRoadID(car), road)
        self.assertEqual(on_roads["c1"], ())
        self.assertEqual(traci.edge.getLastStepMeanSpeed("c1"), 20.0)

    def test_vehicles_can_be_asked_and_redirected(self):
        self.start()
        traci.simulationStep(6)
        self.assertEqual(traci.vehicle.getIDList(), ("car0", "car1"))
        self.assertEqual(traci.vehicle.getRoadID("car0"), "a")
        np.testing.assert_allclose(traci.vehicle.getPosition("car0"), (120.0, 0.0), rtol=1e-6)
        self.assertEqual(traci.vehicle.getSpeed("car0"), 20.0)
        self.assertEqual(traci.vehicle.getAngle("car0"), 90.0)
        self.assertEqual(traci.vehicle.getRoute("car0"), ("a", "b", "d"))
        traci.vehicle.setRoute("car0", ["a", "c1", "c2", "d"])
        self.assertEqual(traci.vehicle.getRoute("car0"), ("a", "c1", "c2", "d"))
        traci.vehicle.changeTarget("car1", "c1")
        self.assertEqual(traci.vehicle.getRoute("car1"), ("a", "c1"))
        traci.route.add("way", ["b", "d"])
        traci.vehicle.add("new", "way")
        traci.simulationStep()
        self.assertEqual(traci.vehicle.getRoadID("new"), "b")
        traci.vehicle.remove("new")
        self.assertNotIn("new", traci.vehicle.getIDList())
        with self.assertRaises(traci.TraCIException):
            traci.vehicle.getSpeed("nobody")

    def test_a_light_follows_the_state_that_was_set(self):
        self.start()
        self.assertEqual(traci.trafficlight.getIDList(), ("B",))
        self.assertEqual(traci.trafficlight.getControlledLanes("B"), ("a_0",))
        self.assertEqual(traci.trafficlight.getRedYellowGreenState("B"), "G")
        traci.trafficlight.setRedYellowGreenState("B", "r")
        traci.simulationStep(60)
        self.assertEqual(traci.edge.getLastStepHaltingNumber("a"), 9 + 1)
        self.assertEqual(traci.edge.getLastStepVehicleNumber("b"), 0)
        traci.trafficlight.setProgram("B", "0")
        traci.simulationStep(200)
        self.assertEqual(traci.simulation.getMinExpectedNumber(), 0)

    def test_roads_can_be_slowed_down_and_closed(self):
        self.start()
        traci.edge.setMaxSpeed("b", 5)
        self.assertEqual(traci.lane.getMaxSpeed("b_0"), 5.0)
        traci.edge.setDisallowed("b", ["passenger"])
        traci.simulationStep(100)
        self.assertEqual(traci.edge.getLastStepVehicleNumber("b"), 0)
        traci.edge.setAllowed("b", [])
        traci.simulationStep(400)
        self.assertEqual(traci.simulation.getMinExpectedNumber(), 0)

    def test_a_state_can_be_saved_and_loaded(self):
        self.start()
        traci.simulationStep(20)
        before = traci.vehicle.getIDList()
        traci.simulation.saveState(str(self.folder / "state"))
        traci.simulationStep(100)
        traci.simulation.loadState(str(self.folder / "state"))
        self.assertEqual(traci.simulation.getTime(), 20.0)
        self.assertEqual(traci.vehicle.getIDList(), before)

    def test_commands_need_a_simulation(self):
        traci.close()
        with self.assertRaises(traci.FatalTraCIError):
            traci.simulationStep()
        with self.assertRaises(AttributeError):
            traci.vehicle.getEmissionClass("car0")


if __name__ == "__main__":
    unittest.main()
