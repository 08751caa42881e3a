//! The cars of a city, and traffic lights alone, compared with rayon and one thread.
//!
//! | case | content |
//! |---|---|
//! | `run` | creel-traffic's tiles on Creel, one thread and rayon, and a game on rayon without tiles |
//! | `two workers` | the gain from a second worker, compared with that of a walk over memory |
//! | `fast-forward` | 250,000 traffic lights that advance by a tick per call |
//! | `peers` | other simulators |

mod game;
mod peers;
mod signals;
mod walk;

use std::sync::Arc;

use anyhow::Context;
use creel::{Balance, Pool, Wait};
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, laps};
use creel_traffic::network::Network;
use creel_traffic::sim::Simulation;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::Workload;
use crate::harness::{Case, Metric, ONE_THREAD, Plan, Subject};
use crate::setting::Setting;

/// The workload `traffic`.
pub const WORKLOAD: Workload = Workload {
    name: "traffic",
    about: "the cars of a city, and 250,000 traffic lights alone",
    cases,
};

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let scene = Later::new({
        let setting = setting.clone();
        move || Scene::new(&setting)
    });
    let mut cases = vec![
        run(setting, &scene),
        walk::two_workers(setting, &scene),
        signals::fast_forward(setting),
    ];
    if let Some(python) = &setting.python {
        cases.extend(peers::cases(setting, python));
    }
    Ok(cases)
}

/// A value that is created when it is first used. Without this, cases that do not run would cost
/// time, too.
struct Later<T>(Arc<dyn Fn() -> anyhow::Result<Arc<T>>>);

impl<T> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> Later<T> {
    fn new(make: impl Fn() -> anyhow::Result<T> + 'static) -> Self {
        let made = std::cell::OnceCell::<Arc<T>>::new();
        Self(Arc::new(move || {
            if made.get().is_none() {
                let _ = made.set(Arc::new(make()?));
            }
            made.get().cloned().context("the value was just created")
        }))
    }

    fn get(&self) -> anyhow::Result<Arc<T>> {
        (self.0)()
    }
}

/// A city with its cars. It is created once, and each sample starts with it.
struct Scene {
    network: Arc<Network>,
    plans: Arc<Plans>,
    /// The cars of the city in the form that the game on rayon needs.
    rules: std::cell::OnceCell<Arc<game::Rules>>,
}

impl Scene {
    /// Creates a city with a million roads of 200 m, traffic lights, and as many cars that drive
    /// without end. In a quick run, everything is a sixteenth of that.
    fn new(setting: &Setting) -> anyhow::Result<Self> {
        let side = if setting.quick { 128 } else { 512 };
        let pool = Pool::builder().workers(setting.workers).build()?;
        let network = Arc::new(City::grid(side, side).network()?);
        let plans = Arc::new(laps::plans(&pool, &network, side * side * 4, 1)?);
        let rules = std::cell::OnceCell::new();
        Ok(Self {
            network,
            plans,
            rules,
        })
    }

    fn rules(&self) -> Arc<game::Rules> {
        let made = || Arc::new(game::Rules::new(&self.network, &self.plans));
        self.rules.get_or_init(made).clone()
    }

    /// Returns a city of creel-traffic. The function `run` advances it by a number of ticks.
    fn tiled<F: Fn(&mut Simulation, u32)>(&self, run: F) -> anyhow::Result<Tiled<F>> {
        let pool = Pool::builder().workers(1).build()?;
        let (network, plans) = (self.network.clone(), self.plans.clone());
        let simulation = Simulation::new(&pool, network, plans, Default::default())?;
        Ok(Tiled(simulation, run))
    }

    /// Returns the vehicle-seconds and the crossings per second of a city, after all cars are on
    /// the roads.
    fn measure(&self, plan: &Plan, mut city: impl Run) -> Vec<f64> {
        // Each call runs several windows, as in a long run, because messages are also delivered at
        // the end of a call.
        let ticks = 4 * WINDOW_TICKS;
        let mut run = ticks * 2;
        city.run(run);
        let before = city.sums();
        let start = run;
        let ns = plan.time(|| {
            city.run(ticks);
            run += ticks;
        });
        // The sums cover all calls including those of the warm-up. Therefore we divide them by the
        // number of calls, and not by the time of the sample.
        let calls = f64::from((run - start) / ticks);
        let after = city.sums();
        let rate = |amount: f64| amount / calls / (ns / 1e9);
        vec![
            rate((after.vehicle_ms - before.vehicle_ms) as f64 / 1000.0),
            rate((after.crossings - before.crossings) as f64),
        ]
    }

    /// Measures the city on a pool of Creel with these settings.
    fn on_creel(&self, plan: &Plan, workers: usize, balance: Balance) -> anyhow::Result<Vec<f64>> {
        let pool = Pool::builder()
            .workers(workers)
            .wait(Wait::Adaptive)
            .balance(balance)
            .build()?;
        let city = self.tiled(|simulation, ticks| simulation.run(&pool, ticks))?;
        Ok(pool.session(|_| self.measure(plan, city)))
    }
}

/// The number of ticks that a tile of this city can run before it needs messages from others.
const WINDOW_TICKS: u32 = 14;

/// A city that can be run. Each subject implements it in its own way.
trait Run {
    fn run(&mut self, ticks: u32);
    fn sums(&mut self) -> Sums;
}

/// The sums over all cars since the simulation began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sums {
    vehicle_ms: i64,
    crossings: u64,
}

/// A simulation of creel-traffic, and the function that advances it.
struct Tiled<F>(Simulation, F);

impl<F: Fn(&mut Simulation, u32)> Run for Tiled<F> {
    fn run(&mut self, ticks: u32) {
        self.1(&mut self.0, ticks);
    }

    fn sums(&mut self) -> Sums {
        Sums {
            vehicle_ms: (self.0.vehicle_seconds() * 1000.0).round() as i64,
            crossings: self.0.tally().crossings,
        }
    }
}

fn run(setting: &Setting, scene: &Later<Scene>) -> Case {
    let workers = setting.workers;
    let creel = |name: &str, balance| {
        let scene = scene.clone();
        Subject::with_metrics(name, move |plan| {
            scene.get()?.on_creel(plan, workers, balance)
        })
    };
    let [single, tiled, locked, collected] = [(); 4].map(|()| scene.clone());
    let subjects = vec![
        creel("creel [sticky, adaptive]", Balance::Sticky),
        creel("creel [shared, adaptive]", Balance::Shared),
        Subject::with_metrics(ONE_THREAD, move |plan| {
            let scene = single.get()?;
            let city = scene.tiled(|simulation, ticks| {
                simulation.run_with(ticks, |tile_windows, each| {
                    tile_windows.iter_mut().for_each(each)
                });
            })?;
            Ok(scene.measure(plan, city))
        }),
        Subject::with_metrics("rayon a mutex an item", move |plan| {
            let (scene, pool) = (locked.get()?, rayon(workers)?);
            let city = game::Locked::new(&scene.network, scene.rules(), pool);
            Ok(scene.measure(plan, city))
        }),
        Subject::with_metrics("rayon collected updates", move |plan| {
            let (scene, pool) = (collected.get()?, rayon(workers)?);
            let city = game::Collected::new(&scene.network, scene.rules(), pool);
            Ok(scene.measure(plan, city))
        }),
        Subject::with_metrics("rayon same tiles", move |plan| {
            let (scene, pool) = (tiled.get()?, rayon(workers)?);
            let city = scene.tiled(|simulation, ticks| {
                simulation.run_with(ticks, |tile_windows, each| {
                    pool.install(|| tile_windows.par_iter_mut().for_each(each));
                });
            })?;
            Ok(scene.measure(plan, city))
        }),
    ];
    Case {
        name: "run".into(),
        metrics: vec![
            Metric {
                name: "speed",
                unit: "vehicle-seconds/s",
            },
            Metric {
                name: "crossings",
                unit: "crossings/s",
            },
        ],
        compared: true,
        // The overhead is the time for creating a city and filling it with cars, which each sample
        // does.
        plan: setting
            .plan(250, 750)
            .with_overhead_ms(if setting.quick { 250 } else { 4_000 }),
        rounds: setting.rounds(4),
        subjects,
    }
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}
