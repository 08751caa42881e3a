//! A city's cars, and the lights alone of a larger one, beside rayon and one thread.
//!
//! `run`: creel-traffic's tiles, run by Creel, one thread, and rayon; beside them the same city as a
//! game on rayon has it, a tick a call, without tiles. `two workers`: what a second worker brings, beside what it brings to
//! a bare walk over as much memory. `fast-forward`: 250,000 signals count down a tick a call, and
//! nothing else happens; what a call costs beside its work shows. `peers`: other simulators.

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

/// The workload's entry.
pub const WORKLOAD: Workload = Workload {
    name: "traffic",
    about: "a city of cars, and 250,000 signals alone",
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

/// What is made when it is first asked for, and then kept: cases that are not run cost nothing.
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
            made.get().cloned().context("was just made")
        }))
    }

    fn get(&self) -> anyhow::Result<Arc<T>> {
        (self.0)()
    }
}

/// A city with its cars, made once and started anew for each sample.
struct Scene {
    network: Arc<Network>,
    plans: Arc<Plans>,
    /// The same cars for a game on rayon.
    rules: std::cell::OnceCell<Arc<game::Rules>>,
}

impl Scene {
    /// A million roads of 200 m with lights, a car for each, that drive for ever; with `--quick` a
    /// sixteenth of that.
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

    /// The city of creel-traffic, to be run as `run` does.
    fn tiled<F: Fn(&mut Simulation, u32)>(&self, run: F) -> anyhow::Result<Tiled<F>> {
        let pool = Pool::builder().workers(1).build()?;
        let (network, plans) = (self.network.clone(), self.plans.clone());
        let simulation = Simulation::new(&pool, network, plans, Default::default())?;
        Ok(Tiled(simulation, run))
    }

    /// Vehicle-seconds and crossings a second of a city, once all cars are on the roads.
    fn measure(&self, plan: &Plan, mut city: impl Run) -> Vec<f64> {
        // Windows that follow each other, as in a long run: what was sent is taken in at the end of all.
        let ticks = 4 * WINDOW_TICKS;
        let mut run = ticks * 2;
        city.run(run);
        let before = city.sums();
        let start = run;
        let ns = plan.time(|| {
            city.run(ticks);
            run += ticks;
        });
        // Of all calls, warm-up included, for the mean of one.
        let calls = f64::from((run - start) / ticks);
        let after = city.sums();
        let rate = |amount: f64| amount / calls / (ns / 1e9);
        vec![
            rate((after.vehicle_ms - before.vehicle_ms) as f64 / 1000.0),
            rate((after.crossings - before.crossings) as f64),
        ]
    }

    /// The same on Creel.
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

/// So many ticks a tile of this city runs alone.
const WINDOW_TICKS: u32 = 14;

/// A city that can be run.
trait Run {
    fn run(&mut self, ticks: u32);
    fn sums(&mut self) -> Sums;
}

/// What came of it so far.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sums {
    vehicle_ms: i64,
    crossings: u64,
}

/// creel-traffic, and what runs it for so many ticks.
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
        // A city is made and filled for each sample, a small one when quick.
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
