//! Other simulators in the same city with the same trips: UXsim and SUMO, using a Python that has
//! them.
//!
//! The city has no traffic lights. It is small, because UXsim needs gigabytes for a larger one.
//! SUMO alone also runs a city with four times as many junctions and trips. SUMO's cars drive the
//! same routes as Creel's, and UXsim chooses its routes itself. No result includes the time for
//! reading and preparing the city.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use creel::{Pool, Wait};
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::demand::{Plans, Route, Traveller, write as demand};
use creel_traffic::network::{Names, Network, Physics, write as roads};
use creel_traffic::route::Router;
use creel_traffic::sim::Simulation;
use serde::Deserialize;

use super::Later;
use crate::harness::{Case, Metric, Subject};
use crate::setting::Setting;

const SCRIPT: &str = include_str!("peers.py");

/// The size of a case: the junctions per side, the travellers (each drives there and back), the
/// time within which they depart, and the simulated time.
#[derive(Clone, Copy)]
struct Size {
    side: u32,
    travellers: u32,
    within_s: u32,
    seconds: u32,
}

impl Size {
    const fn of(side: u32) -> Self {
        Self {
            side,
            travellers: side * side * 50 / 3,
            within_s: 1800,
            seconds: 5400,
        }
    }

    /// Returns the size of a case in a quick run, with `side` junctions per side.
    const fn quick(side: u32) -> Self {
        Self {
            side,
            travellers: side * side * 7,
            within_s: 600,
            seconds: 2400,
        }
    }
}

/// The result of a run. The script prints it as a line of JSON.
#[derive(Clone, Copy, Deserialize)]
struct Outcome {
    seconds: f64,
    trips: u64,
    vehicle_seconds: f64,
    metres: f64,
}

impl Outcome {
    fn values(&self) -> Vec<f64> {
        vec![
            self.vehicle_seconds / self.seconds,
            self.trips as f64,
            self.metres / self.vehicle_seconds * 3.6,
        ]
    }
}

/// The city and its trips, and the folder with the files for the other simulators.
struct Scene {
    network: Arc<Network>,
    plans: Arc<Plans>,
    metres: f64,
    seconds: u32,
    folder: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // We ignore an error, because files that stay in the folder for temporary files do no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the cases `peers` and `SUMO, larger`.
pub(super) fn cases(setting: &Setting, python: &Path) -> [Case; 2] {
    const SUMO: (&str, &str, usize) = ("SUMO meso", "sumo", 1);
    const UXSIM: [(&str, &str, usize); 2] = [
        ("UXsim C++, 1 thread", "uxsim", 1),
        ("UXsim C++, 2 threads", "uxsim", 2),
    ];
    let size = if setting.quick { Size::quick } else { Size::of };
    let sides = if setting.quick { [12, 24] } else { [30, 60] };
    [
        case(
            setting,
            python,
            ("peers", size(sides[0])),
            &[SUMO, UXSIM[0], UXSIM[1]],
        ),
        case(setting, python, ("SUMO, larger", size(sides[1])), &[SUMO]),
    ]
}

/// Returns a case with Creel and these peers. A peer has a name, a simulator for the script, and a
/// number of threads.
fn case(
    setting: &Setting,
    python: &Path,
    (name, size): (&str, Size),
    peers: &[(&str, &'static str, usize)],
) -> Case {
    let workers = setting.workers;
    let scene = Later::new(move || Scene::new(size));
    let creel = {
        let scene = scene.clone();
        Subject::with_metrics("creel", move |_| scene.get()?.on_creel(workers))
    };
    let peer = |&(name, simulator, threads): &(&str, &'static str, usize)| {
        let (scene, python) = (scene.clone(), python.to_owned());
        Subject::with_metrics(name, move |_| scene.get()?.run(&python, simulator, threads))
    };
    let subjects = std::iter::once(creel).chain(peers.iter().map(peer));
    let metric = |name, unit| Metric { name, unit };
    Case {
        name: name.into(),
        metrics: vec![
            metric("speed", "vehicle-seconds/s"),
            metric("trips done", "trips"),
            metric("mean speed", "km/h"),
        ],
        compared: true,
        plan: setting.plan(0, 0).with_overhead_ms(7_000),
        rounds: setting.rounds(3),
        subjects: subjects.collect(),
    }
}

impl Scene {
    fn new(size: Size) -> anyhow::Result<Self> {
        let pool = Pool::builder().build()?;
        let city = City {
            signals: false,
            ..City::grid(size.side, size.side)
        };
        let network = Arc::new(city.network()?);
        let wishes = Gravity {
            cars: size.travellers,
            within_ms: size.within_s * 1000,
            repeats: false,
            places: 4,
            seed: 1,
        };
        let (both, _) = gravity::plans(&pool, &network, &Router::new(&pool, &network), &wishes)?;
        // Each trip has its own car, so that no trip waits for the end of another trip.
        let mut trips: Vec<(u32, Vec<u32>)> = (0..both.len() as u32)
            .flat_map(|car| both.trips(&network, car))
            .filter(|trip| !trip.1.is_empty())
            .collect();
        trips.sort();
        let cars: anyhow::Result<Vec<Traveller>> = trips
            .iter()
            .map(|(depart_ms, links)| {
                Ok(Traveller {
                    origin: network.links()[links[0] as usize].from,
                    trips: vec![(*depart_ms, Route::pack(&network, links)?)],
                    repeats: false,
                })
            })
            .collect();
        // The name is unpredictable and the folder is private, so that no other user can prepare
        // files in it.
        let folder = tempfile::Builder::new()
            .prefix("creel-bench-traffic-")
            .tempdir()?
            .keep();
        let length = |link: &u32| f64::from(network.links()[*link as usize].length_mm) / 1000.0;
        let scene = Self {
            metres: trips.iter().flat_map(|trip| &trip.1).map(length).sum(),
            plans: Arc::new(Plans::new(cars?)?),
            network: network.clone(),
            seconds: size.seconds,
            folder,
        };
        scene.write(&trips)?;
        Ok(scene)
    }

    /// Writes the files for the other simulators.
    fn write(&self, trips: &[(u32, Vec<u32>)]) -> anyhow::Result<()> {
        let network = &self.network;
        let create = |name: &str| File::create(self.folder.join(name)).map(BufWriter::new);
        let mut net = create("city.net.xml")?;
        let physics = Physics::default();
        roads::network(network, &physics, 1, roads::Format::Sumo, &mut net)?;
        net.flush()?;
        let mut routes = create("city.rou.xml")?;
        let format = demand::Format::Sumo;
        demand::plans(network, &self.plans, &Names::default(), format, &mut routes)?;
        routes.flush()?;
        std::fs::write(self.folder.join("peers.py"), SCRIPT)?;
        let nodes: Vec<_> = network.junctions().iter().map(|j| (j.x, j.y)).collect();
        let link = |link: &creel_traffic::network::Link| {
            let metres = |mm: u32| f64::from(mm) / 1000.0;
            let (length, speed) = (metres(link.length_mm), metres(link.speed_mm_s));
            (link.from, link.to, length, speed, link.lanes)
        };
        let links: Vec<_> = network.links().iter().map(link).collect();
        let trip = |(depart_ms, way): &(u32, Vec<u32>)| {
            let ends = [way[0], way[way.len() - 1]].map(|link| network.links()[link as usize]);
            (depart_ms / 1000, ends[0].from, ends[1].to)
        };
        let trips: Vec<_> = trips.iter().map(trip).collect();
        let city = serde_json::json!({
            "seconds": self.seconds, "nodes": nodes, "links": links, "trips": trips,
            "metres": self.metres,
        });
        std::fs::write(self.folder.join("city.json"), city.to_string())?;
        Ok(())
    }

    fn on_creel(&self, workers: usize) -> anyhow::Result<Vec<f64>> {
        let pool = Pool::builder()
            .workers(workers)
            .wait(Wait::Adaptive)
            .build()?;
        let (network, plans) = (self.network.clone(), self.plans.clone());
        let mut simulation = Simulation::new(&pool, network, plans, Physics::default())?;
        let start = Instant::now();
        simulation.run(&pool, self.seconds);
        let outcome = Outcome {
            seconds: start.elapsed().as_secs_f64(),
            trips: simulation.tally().arrived,
            vehicle_seconds: simulation.vehicle_seconds(),
            metres: self.metres,
        };
        Ok(outcome.values())
    }

    fn run(&self, python: &Path, simulator: &str, threads: usize) -> anyhow::Result<Vec<f64>> {
        let output = Command::new(python)
            .arg(self.folder.join("peers.py"))
            .arg(simulator)
            .arg(&self.folder)
            .arg(threads.to_string())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {}", python.display()))?;
        ensure!(
            output.status.success(),
            "{simulator} failed ({}): see its messages above",
            output.status
        );
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().last().unwrap_or_default();
        let outcome: Outcome = serde_json::from_str(line)
            .with_context(|| format!("cannot parse the output of {simulator}: {line}"))?;
        Ok(outcome.values())
    }
}
