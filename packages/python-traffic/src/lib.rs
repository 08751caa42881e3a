//! The Python module `creel_traffic.core`. The package `creel_traffic` adds the names of TraCI to
//! it, in Python.
//!
//! Results are NumPy arrays that own the memory which Rust has filled, so nothing is copied.

mod network;
mod record;
mod rows;

use creel::{Pool, Wait};
use creel_traffic::network::{Names, Network, Physics, Program};
use creel_traffic::random::Stream;
use creel_traffic::sim::{
    CarPosition, END_MS_MAX, Region, Rerouting, Simulation as Inner, Whereabouts,
};
use numpy::{PyArray1, PyArrayDescr};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use record::Record;
use rows::{Change, EdgeRow, PositionRow, TripRow};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Returns a Python error with the message of another error.
fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns a time in milliseconds.
fn milliseconds(seconds: f64) -> PyResult<u32> {
    let ms = (seconds * 1000.0).round();
    if (0.0..=f64::from(END_MS_MAX)).contains(&ms) {
        Ok(ms as u32)
    } else {
        Err(invalid(format!("a time of {seconds} s is out of range")))
    }
}

/// One file, or several.
#[derive(FromPyObject)]
enum Paths {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

/// The junctions of a network, for methods that take the name of a junction.
struct Junctions {
    by_name: HashMap<String, u32>,
    /// The roads that end at each junction, in the order of their numbers.
    incoming: Vec<Vec<u32>>,
}

impl Junctions {
    fn new(network: &Network) -> Self {
        let mut incoming = vec![Vec::new(); network.junctions().len()];
        for (road, link) in (0..).zip(network.links()) {
            incoming[link.to as usize].push(road);
        }
        Self {
            by_name: network.junctions_by_name(),
            incoming,
        }
    }
}

/// A running simulation.
///
/// `demand` is a file, a list of files, "gravity" or "laps". The files of a list can use the types
/// of vehicles that the files before them define.
///
/// Roads and cars have the names of their files, and numbers from 0. Methods take names, and arrays
/// contain numbers: `roads[number]` is the name of a road, and `car_name(number)` that of a car.
#[pyclass(module = "creel_traffic", name = "Simulation")]
struct Simulation {
    pool: Pool,
    inner: Inner,
    /// The names of the cars of the demand, and those of the cars that were added later.
    names: Arc<Names>,
    added: HashMap<u32, String>,
    roads: Arc<HashMap<String, u32>>,
    junctions: Arc<OnceLock<Junctions>>,
    /// The number of each car. It is filled when a car is first looked up by its name.
    cars: HashMap<String, u32>,
    record: Record,
    /// The parts of the files that were not used.
    unused: Vec<String>,
}

impl Simulation {
    fn network(&self) -> &Arc<Network> {
        self.inner.network()
    }

    fn road(&self, name: &str) -> PyResult<u32> {
        let road = self.roads.get(name).copied();
        road.ok_or_else(|| PyKeyError::new_err(format!("the network has no road {name}")))
    }

    fn path(&self, names: &[String]) -> PyResult<Vec<u32>> {
        names.iter().map(|name| self.road(name)).collect()
    }

    fn names_of(&self, roads: &[u32]) -> Vec<String> {
        let name = |&road: &u32| self.network().link_name(road);
        roads.iter().map(name).collect()
    }

    fn car(&mut self, name: &str) -> PyResult<u32> {
        if self.cars.len() != self.inner.plans().len() {
            let all = 0..self.inner.plans().len() as u32;
            self.cars = all.map(|car| (self.car_name(car), car)).collect();
        }
        let car = self.cars.get(name).copied();
        car.ok_or_else(|| PyKeyError::new_err(format!("there is no car {name}")))
    }

    fn junctions(&self) -> &Junctions {
        let network = self.network();
        self.junctions.get_or_init(|| Junctions::new(network))
    }

    fn junction(&self, name: &str) -> PyResult<u32> {
        let junction = self.junctions().by_name.get(name).copied();
        junction.ok_or_else(|| PyKeyError::new_err(format!("the network has no junction {name}")))
    }
}

#[pymethods]
impl Simulation {
    /// Create a simulation at time 0.
    #[new]
    #[pyo3(signature = (network=None, demand=None, *, city=None, cars=None, workers=None, seed=1,
        stuck=300.0, reroute=0.0, reroute_every=60, flow_factor=1.0, storage_factor=1.0, block=200))]
    #[allow(
        clippy::too_many_arguments,
        reason = "they are keyword arguments in Python"
    )]
    fn new(
        py: Python<'_>,
        network: Option<PathBuf>,
        demand: Option<Paths>,
        city: Option<(u32, u32)>,
        cars: Option<u32>,
        workers: Option<usize>,
        seed: u64,
        stuck: f64,
        reroute: f64,
        reroute_every: u32,
        flow_factor: f64,
        storage_factor: f64,
        block: u32,
    ) -> PyResult<Self> {
        let mut builder = Pool::builder().wait(Wait::Adaptive);
        if let Some(workers) = workers {
            builder = builder.workers(workers);
        }
        let pool = builder.build().map_err(invalid)?;
        let physics = Physics {
            stuck_ms: milliseconds(stuck)?,
            flow_ppm: (flow_factor * 1e6).round() as u32,
            storage_ppm: (storage_factor * 1e6).round() as u32,
            ..Physics::default()
        };
        let demand = match demand {
            None => Vec::new(),
            Some(Paths::One(path)) => vec![path],
            Some(Paths::Several(paths)) => paths,
        };
        let wanted = network::Wanted {
            network,
            demand,
            city,
            cars,
            seed,
            block,
        };
        py.detach(move || {
            let (network, plans, names, unused) = wanted.load(&pool).map_err(invalid)?;
            let roads = Arc::new(network.links_by_name());
            let links = network.links().len();
            let mut inner =
                Inner::new(&pool, network, Arc::new(plans), physics).map_err(invalid)?;
            if reroute > 0.0 {
                let rerouting = Rerouting {
                    every_ticks: reroute_every,
                    share_ppm: (reroute * 1e6).round() as u32,
                    late_percent: 20,
                    seed: Stream::of(seed, "reroute", 0).value(),
                };
                inner.set_rerouting(Some(rerouting)).map_err(invalid)?;
            }
            inner.record_events(true);
            Ok(Self {
                pool,
                inner,
                names: Arc::new(names),
                added: HashMap::new(),
                roads,
                junctions: Arc::default(),
                cars: HashMap::new(),
                record: Record::new(links),
                unused,
            })
        })
    }

    /// Run for a number of seconds, which need not be whole.
    #[pyo3(signature = (seconds=1.0))]
    fn run(&mut self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let step_ms = milliseconds(seconds)?;
        if u64::from(self.inner.now_ms()) + u64::from(step_ms) > u64::from(END_MS_MAX) {
            return Err(invalid("a simulation ends after 34 days"));
        }
        py.detach(|| {
            let Self {
                pool,
                inner,
                record,
                ..
            } = self;
            record.begin_step();
            // A part of a step is short, so that the events of a long step need little memory.
            let mut left_ms = step_ms;
            loop {
                let part_ms = left_ms.min(60_000);
                inner.run_ms(pool, part_ms);
                let events = inner.take_events();
                record.take(inner, &events);
                left_ms -= part_ms;
                if left_ms == 0 {
                    break;
                }
            }
        });
        Ok(())
    }

    /// The current time in seconds.
    #[getter]
    fn now(&self) -> f64 {
        f64::from(self.inner.now_ms()) / 1000.0
    }

    /// The number of workers.
    #[getter]
    fn workers(&self) -> usize {
        self.pool.workers()
    }

    /// The names of all roads, by number.
    #[getter]
    fn roads(&self) -> Vec<String> {
        let all: Vec<u32> = (0..self.network().links().len() as u32).collect();
        self.names_of(&all)
    }

    /// The parts of the network and the demand that were not used.
    #[getter]
    fn unused(&self) -> Vec<String> {
        self.unused.clone()
    }

    /// The number of cars, including those that have not departed or have arrived.
    fn __len__(&self) -> usize {
        self.inner.plans().len()
    }

    /// The number of cars that have not finished their last trip.
    #[getter]
    fn unfinished(&self) -> u64 {
        self.inner.plans().len() as u64 - self.inner.tally().done
    }

    /// The name of a car.
    fn car_name(&self, number: u32) -> String {
        let added = self.added.get(&number).cloned();
        added.unwrap_or_else(|| self.names.get(number))
    }

    /// The number of a car.
    fn car_number(&mut self, name: &str) -> PyResult<u32> {
        self.car(name)
    }

    /// The number of a road.
    fn road_number(&self, name: &str) -> PyResult<u32> {
        self.road(name)
    }

    /// Totals since the beginning: cars, trips, crossings and times.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tally = self.inner.tally();
        let totals = PyDict::new(py);
        totals.set_item("moving", tally.moving)?;
        totals.set_item("waiting", tally.waiting_to_enter)?;
        totals.set_item("idle", tally.idle)?;
        totals.set_item("done", tally.done)?;
        totals.set_item("begun", tally.begun)?;
        totals.set_item("arrived", tally.arrived)?;
        totals.set_item("crossings", tally.crossings)?;
        totals.set_item("stepped_aside", tally.stepped_aside)?;
        totals.set_item("rerouted", tally.rerouted)?;
        totals.set_item("vehicle_seconds", self.inner.vehicle_seconds())?;
        totals.set_item("delay_seconds", self.inner.delay_seconds())?;
        Ok(totals)
    }

    /// A hash of the state, which is equal for any number of workers.
    fn hash(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.inner.hash(&self.pool))
    }

    /// The positions of all cars on roads, or of those in a part of the map
    /// (west, south, east, north), as a structured array.
    #[pyo3(signature = (region=None))]
    fn positions<'py>(
        &self,
        py: Python<'py>,
        region: Option<[f64; 4]>,
    ) -> Bound<'py, PyArray1<PositionRow>> {
        let region = region.map_or(Region::ALL, |[west, south, east, north]| Region {
            x: [west, east],
            y: [south, north],
        });
        let positions = py.detach(|| {
            let mut into: Vec<CarPosition> = Vec::new();
            self.inner.positions(&region, &mut into);
            into
        });
        PyArray1::from_vec(py, rows::positions(positions))
    }

    /// The number of cars on each road.
    fn occupancy<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u16>> {
        let mut into = Vec::new();
        self.inner.occupancy(&mut into);
        PyArray1::from_vec(py, into)
    }

    /// The length of each road in metres.
    fn lengths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let roads = self.network().links().iter();
        let lengths = roads.map(|road| f64::from(road.length_mm) / 1000.0);
        PyArray1::from_vec(py, lengths.collect())
    }

    /// The current speed limit of each road in metres per second.
    fn speeds<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let roads = 0..self.network().links().len() as u32;
        let speeds = roads.map(|road| self.inner.current_speed(road));
        PyArray1::from_vec(py, speeds.collect())
    }

    /// The current speed limit of a road in metres per second.
    fn speed_of(&self, road: &str) -> PyResult<f64> {
        Ok(self.inner.current_speed(self.road(road)?))
    }

    /// The trips that have ended since the last call, as a structured array.
    fn take_trips<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyArray1<TripRow>> {
        PyArray1::from_vec(py, std::mem::take(&mut self.record.trips))
    }

    /// The counts and times of each road since the last call, as a structured array: the cars that
    /// entered and left it, and the time that they spent on it.
    fn take_edge_data<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyArray1<EdgeRow>> {
        let edges = self.record.take_edges(self.inner.now_ms());
        PyArray1::from_vec(py, edges)
    }

    /// The events of all cars in the last run, as a structured array with times in milliseconds.
    ///
    /// The field `kind` has one of these values:
    ///
    /// - 0: a trip began
    /// - 1: the car entered a road
    /// - 2: the car left a road
    /// - 3: the trip ended
    /// - 4: the car left the road because it was blocked for too long, and drives past full roads
    /// - 5: the car was removed
    /// - 6: the car got another route
    fn take_events<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyArray1<Change>> {
        PyArray1::from_vec(py, std::mem::take(&mut self.record.changes))
    }

    /// Close a road for cars that would enter it, or open it again. Cars that wait in front of it
    /// take another way if `reroute` is set.
    #[pyo3(signature = (road, is_closed=true, reroute=true))]
    fn set_closed(&mut self, road: &str, is_closed: bool, reroute: bool) -> PyResult<usize> {
        let road = self.road(road)?;
        self.inner.set_closed(road, is_closed).map_err(invalid)?;
        Ok(match is_closed && reroute {
            true => self.inner.reroute_around(&self.pool, road),
            false => 0,
        })
    }

    /// Whether a road is closed.
    fn is_closed(&self, road: &str) -> PyResult<bool> {
        Ok(self.inner.is_closed(self.road(road)?))
    }

    /// Send all cars whose route contains the road around it. Returns their number.
    fn reroute_around(&mut self, road: &str) -> PyResult<usize> {
        let road = self.road(road)?;
        Ok(self.inner.reroute_around(&self.pool, road))
    }

    /// Set the speed limit of a road in metres per second, or restore that of the network.
    #[pyo3(signature = (road, speed=None))]
    fn set_speed(&mut self, road: &str, speed: Option<f64>) -> PyResult<()> {
        let road = self.road(road)?;
        let own = self.network().links()[road as usize].speed_mm_s;
        // The limit of the network may have lost its last digit.
        let speed = speed.map(|speed| (speed * 1000.0).round() as u32);
        let speed = speed.map(|speed| if speed == own + 1 { own } else { speed });
        self.inner.set_speed(road, speed).map_err(invalid)
    }

    /// Set the capacity of a road in cars per hour, or restore that of the network.
    #[pyo3(signature = (road, per_hour=None))]
    fn set_capacity(&mut self, road: &str, per_hour: Option<f64>) -> PyResult<()> {
        let road = self.road(road)?;
        if per_hour.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)) {
            return Err(invalid("the capacity of a road must be more than 0"));
        }
        let headway_ms = per_hour.map(|rate| (3_600_000.0 / rate).max(1.0) as u32);
        self.inner.set_headway(road, headway_ms).map_err(invalid)
    }

    /// Add a car that departs now and drives along these roads. Returns its number.
    fn add(&mut self, name: &str, roads: Vec<String>) -> PyResult<u32> {
        if self.car(name).is_ok() {
            return Err(invalid(format!("there is already a car {name}")));
        }
        let path = self.path(&roads)?;
        let car = self.inner.spawn(&path).map_err(invalid)?;
        self.added.insert(car, name.to_owned());
        self.cars.insert(name.to_owned(), car);
        Ok(car)
    }

    /// Remove a car, wherever it is. Returns whether it was still there.
    fn remove(&mut self, car: &str) -> PyResult<bool> {
        let car = self.car(car)?;
        Ok(self.inner.remove(car))
    }

    /// Give a car a new route, which begins after the road that it is on.
    fn set_route(&mut self, car: &str, roads: Vec<String>) -> PyResult<()> {
        let (car, path) = (self.car(car)?, self.path(&roads)?);
        self.inner.set_route(car, &path).map_err(invalid)
    }

    /// Send a car to the end of a road, on the quickest route in free flow.
    fn set_destination(&mut self, car: &str, road: &str) -> PyResult<()> {
        let (car, road) = (self.car(car)?, self.road(road)?);
        let begin = self.network().links()[road as usize].from;
        let place = self.inner.whereabouts(car);
        if place == Some(Whereabouts::OnRoad(road)) {
            return self.inner.set_route(car, &[]).map_err(invalid);
        }
        self.inner
            .set_destination(&self.pool, car, begin)
            .map_err(invalid)?;
        let mut path = self.inner.route_of(car).unwrap_or_default();
        path.push(road);
        self.inner.set_route(car, &path).map_err(invalid)
    }

    /// The rest of the route of a car, without the road that it is on.
    fn route_of(&mut self, car: &str) -> PyResult<Option<Vec<String>>> {
        let car = self.car(car)?;
        Ok(self.inner.route_of(car).map(|path| self.names_of(&path)))
    }

    /// Where a car is: ("idle", None), ("entering", ROAD), ("on road", ROAD) or ("done", None). It
    /// is ("aside", ROAD) if the car was blocked for too long, so that it left the road and drives
    /// past this full road.
    fn whereabouts(&mut self, car: &str) -> PyResult<(&'static str, Option<String>)> {
        let car = self.car(car)?;
        let name = |road| Some(self.network().link_name(road));
        Ok(match self.inner.whereabouts(car) {
            Some(Whereabouts::Idle) => ("idle", None),
            Some(Whereabouts::Entering(road)) => ("entering", name(road)),
            Some(Whereabouts::OnRoad(road)) => ("on road", name(road)),
            Some(Whereabouts::Aside(road)) => ("aside", name(road)),
            Some(Whereabouts::Done) | None => ("done", None),
        })
    }

    /// The junctions with a traffic light.
    fn lights(&self) -> Vec<String> {
        let all = 0..self.network().junctions().len() as u32;
        let lights = all.filter(|&junction| self.inner.program(junction).is_some());
        lights
            .map(|one| self.network().junction_name(one))
            .collect()
    }

    /// The roads that end at a junction, each with the number of its approach. Roads with the same
    /// approach have green together.
    fn approaches(&self, junction: &str) -> PyResult<Vec<(String, u8)>> {
        let junction = self.junction(junction)?;
        let approach = |&road: &u32| {
            let link = &self.network().links()[road as usize];
            (self.network().link_name(road), link.approach)
        };
        let incoming = &self.junctions().incoming[junction as usize];
        Ok(incoming.iter().map(approach).collect())
    }

    /// The program of a traffic light: its cycle, the green phases of each approach, and its
    /// offset, in seconds.
    #[allow(clippy::type_complexity, reason = "it is a tuple in Python")]
    fn program(&self, junction: &str) -> PyResult<(f64, Vec<Vec<(f64, f64)>>, f64)> {
        let junction = self.junction(junction)?;
        let Some((program, offset_ms)) = self.inner.program(junction) else {
            return Err(invalid("the junction has no traffic light"));
        };
        let seconds = |ms: u32| f64::from(ms) / 1000.0;
        let approaches = 0..program.greens.len() as u8;
        let greens = approaches.map(|approach| {
            let greens = program.greens_of(approach);
            greens.map(|(a, b)| (seconds(a), seconds(b))).collect()
        });
        Ok((
            seconds(program.cycle_ms),
            greens.collect(),
            seconds(offset_ms),
        ))
    }

    /// Give a traffic light another program, or restore that of the network if `cycle` is None.
    #[pyo3(signature = (junction, cycle=None, greens=Vec::new(), offset=0.0))]
    fn set_program(
        &mut self,
        junction: &str,
        cycle: Option<f64>,
        greens: Vec<Vec<(f64, f64)>>,
        offset: f64,
    ) -> PyResult<()> {
        let junction = self.junction(junction)?;
        let Some(cycle) = cycle else {
            return self.inner.set_program(junction, None).map_err(invalid);
        };
        let mut program = Program {
            cycle_ms: milliseconds(cycle)?,
            ..Program::default()
        };
        for (approach, phases) in (0..=u8::MAX).zip(&greens) {
            let phase = |&(a, b): &(f64, f64)| Ok::<_, PyErr>((milliseconds(a)?, milliseconds(b)?));
            let first = phases.first().map(phase).transpose()?;
            program.greens.push(first.unwrap_or((0, 0)));
            for further in phases.iter().skip(1) {
                program.further_greens.push((approach, phase(further)?));
            }
        }
        let program = Some((program, milliseconds(offset)?));
        self.inner.set_program(junction, program).map_err(invalid)
    }

    /// A copy of the state, which shares the network and the plans.
    fn copy(&self) -> PyResult<Self> {
        let pool = Pool::builder().wait(Wait::Adaptive);
        let pool = pool.workers(self.pool.workers()).build().map_err(invalid)?;
        Ok(Self {
            pool,
            inner: self.inner.clone(),
            names: Arc::clone(&self.names),
            added: self.added.clone(),
            roads: Arc::clone(&self.roads),
            junctions: Arc::clone(&self.junctions),
            cars: HashMap::new(),
            record: self.record.clone(),
            unused: self.unused.clone(),
        })
    }

    /// Go back to the state of a copy. This reuses memory, so it is much quicker than another copy.
    fn restore(&mut self, py: Python<'_>, from: PyRef<'_, Self>) {
        let (inner, record) = (&from.inner, &from.record);
        py.detach(|| {
            self.inner.clone_from(inner);
            self.record.clone_from(record);
        });
        self.names = Arc::clone(&from.names);
        self.roads = Arc::clone(&from.roads);
        self.junctions = Arc::clone(&from.junctions);
        self.added.clone_from(&from.added);
        self.cars.clear();
        self.unused.clone_from(&from.unused);
    }

    /// Write the state to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let mut to = BufWriter::new(File::create(path)?);
            self.inner.save(&mut to)?;
            Ok(to.flush()?)
        })
    }

    /// Go back to a state that `save` has written for the same network. Trips and edge data begin
    /// again.
    fn load(&mut self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let (network, pool) = (Arc::clone(self.network()), self.pool.clone());
        let from = BufReader::new(File::open(path)?);
        self.inner = py
            .detach(|| Inner::load(&pool, network, from))
            .map_err(invalid)?;
        self.inner.record_events(true);
        self.cars.clear();
        self.record = Record::new(self.network().links().len());
        let on_links = self.inner.vehicles_on_links();
        self.record.resume(&self.inner, &on_links);
        Ok(())
    }
}

/// The types of the rows of structured arrays, for `numpy.empty` and tests.
#[pyfunction]
fn dtypes<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let add = |name: &str, dtype: Bound<'py, PyArrayDescr>| all.set_item(name, dtype);
    add("positions", numpy::dtype::<PositionRow>(py))?;
    add("trips", numpy::dtype::<TripRow>(py))?;
    add("edges", numpy::dtype::<EdgeRow>(py))?;
    add("events", numpy::dtype::<Change>(py))?;
    Ok(all)
}

#[pymodule]
fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Simulation>()?;
    module.add_function(wrap_pyfunction!(dtypes, module)?)
}
