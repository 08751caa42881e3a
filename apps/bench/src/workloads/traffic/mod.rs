//! A city's cars, and the lights alone of a larger one, beside rayon and one thread.
//!
//! `run`: all subjects run the same tiles of creel-traffic for the same windows; only who runs them
//! and how they exchange differs. `two workers`: what a second worker brings, beside what it brings to
//! a bare walk over as much memory. `fast-forward`: 250,000 signals count down a tick a call, and
//! nothing else happens; what a call costs beside its work shows. `peers`: other simulators.

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
}

impl Scene {
    /// A million roads of 200 m with lights, a car for each, that drive for ever; with `--quick` a
    /// sixteenth of that.
    fn new(setting: &Setting) -> anyhow::Result<Self> {
        let side = if setting.quick { 128 } else { 512 };
        let pool = Pool::builder().workers(setting.workers).build()?;
        let network = Arc::new(City::grid(side, side).network()?);
        let plans = Arc::new(laps::plans(&pool, &network, side * side * 4, 1)?);
        Ok(Self { network, plans })
    }

    /// All cars on the roads, by what runs the simulation; then vehicle-seconds and crossings a second.
    fn measure(&self, plan: &Plan, run: impl Fn(&mut Simulation, u32)) -> anyhow::Result<Vec<f64>> {
        let pool = Pool::builder().workers(1).build()?;
        let mut simulation = Simulation::new(
            &pool,
            self.network.clone(),
            self.plans.clone(),
            Default::default(),
        )?;
        drop(pool);
        // Windows that follow each other, as in a long run: what was sent is taken in at the end of all.
        let ticks = 4 * simulation.window_ms() / 1000;
        run(&mut simulation, 70_u32.next_multiple_of(ticks));
        let before = (
            simulation.vehicle_seconds(),
            simulation.tally().crossings,
            simulation.now_ms(),
        );
        let ns = plan.time(|| run(&mut simulation, ticks));
        let seconds = f64::from(simulation.now_ms() - before.2) / 1000.0;
        // Of all calls, warm-up included, for the mean of one.
        let calls = seconds / f64::from(ticks);
        let rate = |amount: f64| amount / calls / (ns / 1e9);
        let crossings = simulation.tally().crossings - before.1;
        Ok(vec![
            rate(simulation.vehicle_seconds() - before.0),
            rate(crossings as f64),
        ])
    }

    /// The same on Creel.
    fn on_creel(&self, plan: &Plan, workers: usize, balance: Balance) -> anyhow::Result<Vec<f64>> {
        let pool = Pool::builder()
            .workers(workers)
            .wait(Wait::Adaptive)
            .balance(balance)
            .build()?;
        pool.session(|_| self.measure(plan, |simulation, ticks| simulation.run(&pool, ticks)))
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
    let [single, collected, locked] = [(); 3].map(|()| scene.clone());
    let subjects = vec![
        creel("creel [sticky, adaptive]", Balance::Sticky),
        creel("creel [shared, adaptive]", Balance::Shared),
        Subject::with_metrics(ONE_THREAD, move |plan| {
            single.get()?.measure(plan, |simulation, ticks| {
                simulation.run_by(ticks, |parts, each| parts.iter_mut().for_each(each));
            })
        }),
        Subject::with_metrics("rayon collected updates", move |plan| {
            let pool = rayon(workers)?;
            collected.get()?.measure(plan, |simulation, ticks| {
                simulation.run_by(ticks, |parts, each| {
                    pool.install(|| parts.par_iter_mut().for_each(each));
                });
            })
        }),
        Subject::with_metrics("rayon a mutex an item", move |plan| {
            let pool = rayon(workers)?;
            locked.get()?.measure(plan, |simulation, ticks| {
                simulation.run_by_locks(ticks, |parts, each| {
                    pool.install(|| parts.par_iter_mut().for_each(each));
                });
            })
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
        plan: setting.plan(500, 2000),
        rounds: setting.rounds(5),
        subjects,
    }
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}
