//! A city's cars, and the lights alone of a larger one, beside rayon and one thread.
//!
//! `run`: all subjects run the same tiles of creel-traffic for the same windows; only who runs them
//! differs. `fast-forward`: 250,000 signals count down a tick a call, and nothing else happens; what
//! a call costs beside its work shows.

use std::sync::Arc;

use creel::{Balance, Placement, Pool, Wait};
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

const SIGNALS: usize = 250_000;

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    Ok(vec![run(setting)?, fast_forward(setting)])
}

/// A city with its cars, made once and started anew for each sample.
#[derive(Clone)]
struct Scene {
    network: Arc<Network>,
    plans: Arc<Plans>,
}

impl Scene {
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
        let window = simulation.window_ms() / 1000;
        run(&mut simulation, 70_u32.next_multiple_of(window));
        let before = (
            simulation.vehicle_seconds(),
            simulation.tally().crossings,
            simulation.now_ms(),
        );
        let ns = plan.time(|| run(&mut simulation, window));
        let ticks = f64::from(simulation.now_ms() - before.2) / 1000.0;
        // Of all windows that ran, warm-up included, for the mean of a window.
        let windows = ticks / f64::from(window);
        let rate = |amount: f64| amount / windows / (ns / 1e9);
        let crossings = simulation.tally().crossings - before.1;
        Ok(vec![
            rate(simulation.vehicle_seconds() - before.0),
            rate(crossings as f64),
        ])
    }
}

fn run(setting: &Setting) -> anyhow::Result<Case> {
    let scene = Scene::new(setting)?;
    let workers = setting.workers;
    let creel = |name: &str, balance| {
        let scene = scene.clone();
        Subject::with_metrics(name, move |plan| {
            let pool = Pool::builder()
                .workers(workers)
                .wait(Wait::Adaptive)
                .balance(balance)
                .build()?;
            pool.session(|_| scene.measure(plan, |simulation, ticks| simulation.run(&pool, ticks)))
        })
    };
    let (single, collected) = (scene.clone(), scene.clone());
    let subjects = vec![
        creel("creel [sticky, adaptive]", Balance::Sticky),
        creel("creel [shared, adaptive]", Balance::Shared),
        Subject::with_metrics(ONE_THREAD, move |plan| {
            single.measure(plan, |simulation, ticks| {
                simulation.run_by(ticks, |parts, each| parts.iter_mut().for_each(each));
            })
        }),
        Subject::with_metrics("rayon collected updates", move |plan| {
            let pool = rayon(workers)?;
            collected.measure(plan, |simulation, ticks| {
                simulation.run_by(ticks, |parts, each| {
                    pool.install(|| parts.par_iter_mut().for_each(each))
                });
            })
        }),
    ];
    Ok(Case {
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
    })
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// A signal: ticks until it changes, its phase, and how long each lasts.
#[derive(Clone, Copy)]
struct Signal {
    left: u16,
    phase: u8,
    lasts: [u8; 2],
}

impl Signal {
    fn tick(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.phase ^= 1;
            self.left = u16::from(self.lasts[usize::from(self.phase)]);
        }
    }
}

fn signals() -> Vec<Signal> {
    let signal = |index: usize| {
        let lasts = [20 + (index * 7 % 40) as u8, 20 + (index * 13 % 40) as u8];
        Signal {
            left: 1 + (index * 31 % 20) as u16,
            phase: (index % 2) as u8,
            lasts,
        }
    };
    (0..SIGNALS).map(signal).collect()
}

fn fast_forward(setting: &Setting) -> Case {
    let workers = setting.workers;
    let creel = |name: &str, balance, placement: Placement| {
        Subject::new(name, move |plan| {
            let builder = Pool::builder().workers(workers).wait(Wait::Adaptive);
            let pool = builder
                .balance(balance)
                .placement(placement.clone())
                .build()?;
            let mut signals = signals();
            Ok(pool
                .session(|loops| plan.time(|| loops.each(&mut signals, |_, signal| signal.tick()))))
        })
    };
    let subjects = vec![
        creel("creel [pinned, sticky]", Balance::Sticky, Placement::Cores),
        creel("creel [neither]", Balance::Shared, Placement::Unpinned),
        Subject::new(ONE_THREAD, |plan| {
            let mut signals = signals();
            Ok(plan.time(|| signals.iter_mut().for_each(Signal::tick)))
        }),
        Subject::new("rayon chunks", move |plan| {
            let pool = rayon(workers)?;
            let mut signals = signals();
            let size = SIGNALS.div_ceil(workers);
            let each = |chunk: &mut [Signal]| chunk.iter_mut().for_each(Signal::tick);
            Ok(plan.time(|| pool.install(|| signals.par_chunks_mut(size).for_each(each))))
        }),
    ];
    Case {
        name: "fast-forward".into(),
        metrics: vec![Metric {
            name: "time",
            unit: "ns a tick",
        }],
        compared: true,
        plan: setting.plan(100, 400),
        rounds: setting.rounds(9),
        subjects,
    }
}
