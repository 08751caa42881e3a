//! The curves that `creel-scale` measures. Most curves have a bound, which no runtime can beat on
//! the machine. The others, for example `broadcast`, have a reference to compare them with.

use crate::cases::{self, SPIN, branch, pool};
use creel::{Balance, Pool, Wait};
use creel_sim::{Machine, Sim, now_ns, profile_only, thread, work};
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// One measured quantity as a function of the number of workers.
pub struct Curve {
    pub name: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    pub bound_is: &'static str,
    pub measure: fn(&Machine, usize) -> f64,
    pub bound: fn(&Machine, usize) -> f64,
}

/// The curve that is measured only if it is asked for, because it takes minutes for each number of
/// workers.
pub const HUGE_TREE: &str = "huge-tree";

/// All curves that `creel-scale` can measure.
pub const CURVES: [Curve; 14] = [
    Curve {
        name: "dispatch",
        what: "a loop with one item of 5 us per worker, without the item, while the workers spin",
        unit: "us",
        bound_is: "one line down and one line up, over the distances of the machine",
        measure: dispatch,
        bound: |machine, workers| 2.0 * farthest(machine, workers) / 1e3,
    },
    Curve {
        name: "hot",
        what: "a loop of 100,000 items of 10 ns per worker",
        unit: "us",
        bound_is: "1,000 us of work per worker",
        measure: hot,
        bound: |_, _| 1_000.0,
    },
    Curve {
        name: "hog",
        what: "the same loop while another program computes on one of the PUs, as a mean of 20 loops",
        unit: "us",
        bound_is: "the work divided by the workers, of which two have half a PU",
        measure: hog,
        bound: |_, workers| 1_000.0 * workers as f64 / (workers as f64 - 0.5),
    },
    Curve {
        name: "tree",
        what: "a binary tree of 65,536 leaves by join, 500 ns per leaf",
        unit: "us",
        bound_is: "the work divided by the workers, of which the caller is one",
        measure: |machine, workers| tree::<5>(machine, workers, 16),
        bound: |_, workers| 65_536.0 * 0.5 / workers as f64,
    },
    Curve {
        name: "large-tree",
        what: "a binary tree of 1,048,576 leaves by join, 500 ns per leaf",
        unit: "us",
        bound_is: "the work divided by the workers, of which the caller is one",
        measure: |machine, workers| tree::<3>(machine, workers, 20),
        bound: |_, workers| 1_048_576.0 * 0.5 / workers as f64,
    },
    Curve {
        name: HUGE_TREE,
        what: "a binary tree of 8,388,608 leaves by join, 500 ns per leaf",
        unit: "us",
        bound_is: "the work divided by the workers, of which the caller is one",
        measure: |machine, workers| tree::<3>(machine, workers, 23),
        bound: |_, workers| 8_388_608.0 * 0.5 / workers as f64,
    },
    Curve {
        name: "scope",
        what: "100 spawns per worker of 2 us each, by one scope",
        unit: "us",
        bound_is: "the work divided by the workers and the caller, which helps",
        measure: scope,
        bound: |_, workers| 200.0 * workers as f64 / with_caller(workers),
    },
    Curve {
        name: "spawn",
        what: "one task that spawns 100 tasks of 2 us per worker",
        unit: "us",
        bound_is: "200 us of work per worker",
        measure: |machine, workers| spawn_inside(machine, workers, 100, 2_000),
        bound: |_, _| 200.0,
    },
    Curve {
        name: "fan-out",
        what: "one task per worker that spawns 100 tasks of 2 us",
        unit: "us",
        bound_is: "200 us of work per worker",
        measure: fan_out,
        bound: |_, _| 200.0,
    },
    Curve {
        name: "burst",
        what: "one task that spawns 10 tasks of 50 us per worker",
        unit: "us",
        bound_is: "500 us of work per worker",
        measure: |machine, workers| spawn_inside(machine, workers, 10, 50_000),
        bound: |_, _| 500.0,
    },
    Curve {
        name: "chain",
        what: "10,000 tasks, each of which spawns the next one, per task",
        unit: "us",
        bound_is: "the same with one worker",
        measure: chain,
        bound: |machine, _| chain(machine, 1),
    },
    Curve {
        name: "broadcast",
        what: "from all workers asleep until the last one runs a broadcast",
        unit: "us",
        bound_is: "one wake after another by the caller, as a reference",
        measure: broadcast,
        bound: |machine, workers| {
            let costs = machine.costs;
            (workers as u64 * costs.wake + costs.idle_exit) as f64 / 1e3
        },
    },
    Curve {
        name: "wake",
        what: "from all workers asleep until the last one runs its item of a loop",
        unit: "us",
        bound_is: "the fastest tree of wakes",
        measure: |machine, workers| wake(machine, workers, Balance::Sticky),
        bound: |machine, workers| tree_of_wakes(machine, workers) as f64 / 1e3,
    },
    Curve {
        name: "wake-fixed",
        what: "the same with Balance::Fixed",
        unit: "us",
        bound_is: "the fastest tree of wakes",
        measure: |machine, workers| wake(machine, workers, Balance::Fixed),
        bound: |machine, workers| tree_of_wakes(machine, workers) as f64 / 1e3,
    },
];

/// Returns the number of threads that run closures of a join or a scope. The caller helps if there
/// is more than one worker.
fn with_caller(workers: usize) -> f64 {
    (if workers == 1 { 1 } else { workers + 1 }) as f64
}

/// Returns the number of PUs of a machine.
pub fn pus(machine: &Machine) -> usize {
    let topology = creel_topology::Machine::synthetic(&machine.topology);
    topology.map_or(1, |topology| topology.pus().len())
}

/// Returns the largest cost of a transfer between the first `workers` cores.
fn farthest(machine: &Machine, workers: usize) -> f64 {
    let topology = creel_topology::Machine::synthetic(&machine.topology).expect("it is valid");
    let pus = topology.pus();
    let last = pus[workers.min(pus.len()) - 1];
    let together = |set: &creel_topology::CpuSet| set.contains(pus[0]) && set.contains(last);
    let costs = machine.costs;
    let cost = if workers == 1 {
        costs.hit
    } else if topology.caches_at(3).any(|cache| together(&cache.pus)) {
        costs.same_l3
    } else if topology
        .packages()
        .iter()
        .any(|package| together(&package.pus))
    {
        costs.same_package
    } else {
        costs.other_package
    };
    cost as f64
}

/// Returns the time in nanoseconds until `workers` threads run, if one of them runs at the
/// beginning. Every thread that runs wakes the sleeping threads one after another.
fn tree_of_wakes(machine: &Machine, workers: usize) -> u64 {
    let costs = machine.costs;
    // For each running thread, the time at which it will have woken the next thread.
    let mut wakes = BinaryHeap::from([Reverse(costs.wake)]);
    let mut last = 0;
    for _ in 1..workers {
        let Reverse(woken) = wakes.pop().expect("there is a thread that runs");
        last = woken + costs.idle_exit;
        wakes.extend([woken, last].map(|from| Reverse(from + costs.wake)));
    }
    last
}

/// Runs `f` five times, and returns the shortest time of the last three runs in microseconds.
fn least(f: impl FnMut()) -> f64 {
    least_of::<5>(f)
}

/// Runs `f` `TIMES` times, and returns the shortest time in microseconds. The first two runs do not
/// count, and a profile contains the last run only.
fn least_of<const TIMES: usize>(mut f: impl FnMut()) -> f64 {
    let mut times = [0; TIMES];
    for time in &mut times {
        let begin = now_ns();
        profile_only(&mut f);
        *time = now_ns() - begin;
    }
    times[2..].iter().copied().min().unwrap_or(0) as f64 / 1e3
}

/// Returns a pool whose workers all have a thread and spin. A pool starts its threads one after
/// another when it needs them, which takes longer than the curves that use this function.
fn started_pool(workers: usize) -> Pool {
    let pool = pool(workers, SPIN);
    pool.broadcast(|_| ());
    pool
}

/// The work of one item of `dispatch`. The caller would run a loop of shorter items alone.
const ITEM: u64 = 5_000;

fn dispatch(machine: &Machine, workers: usize) -> f64 {
    Sim::new(machine).run(|| {
        let pool = pool(workers, SPIN);
        let mut items = vec![0u8; workers];
        // The first calls are slower, because the pool times them and threads are still starting.
        // Therefore we make twelve calls.
        least_of::<12>(|| pool.for_each(&mut items, |_| work(ITEM))) - ITEM as f64 / 1e3
    })
}

fn hot_loop(pool: &Pool, workers: usize) -> f64 {
    let mut items = vec![0u8; 100_000 * workers];
    least(|| pool.for_each_chunk(&mut items, 1_000, |chunk| work(chunk.len() as u64 * 10)))
}

fn hot(machine: &Machine, workers: usize) -> f64 {
    Sim::new(machine).run(|| hot_loop(&pool(workers, SPIN), workers))
}

/// Measures the loop of `hot` on a machine of which other programs use all but `workers` PUs
/// completely, and one of these PUs half of the time.
fn hog(machine: &Machine, workers: usize) -> f64 {
    const LOOPS: u32 = 20;
    Sim::new(machine).run(|| {
        (workers..pus(machine)).for_each(creel_sim::hog);
        let pool = pool(workers, Wait::Adaptive);
        pool.broadcast(|_| ());
        let mut items = vec![0u8; 100_000 * workers];
        let mut call =
            || pool.for_each_chunk(&mut items, 1_000, |chunk| work(chunk.len() as u64 * 10));
        call();
        creel_sim::hog(workers / 2);
        let begin = now_ns();
        (0..LOOPS).for_each(|_| call());
        (now_ns() - begin) as f64 / f64::from(LOOPS) / 1e3
    })
}

fn tree<const TIMES: usize>(machine: &Machine, workers: usize, depth: u32) -> f64 {
    Sim::new(machine).run(|| {
        let pool = pool(workers, SPIN);
        least_of::<TIMES>(|| branch(&pool, depth))
    })
}

fn scope(machine: &Machine, workers: usize) -> f64 {
    Sim::new(machine).run(|| {
        let pool = pool(workers, SPIN);
        least(|| {
            pool.scope(|scope| (0..100 * workers).for_each(|_| scope.spawn(|| work(2_000))));
        })
    })
}

/// Measures a task that spawns `each` tasks per worker and waits for them. Each of these tasks
/// computes for `ns` nanoseconds.
fn spawn_inside(machine: &Machine, workers: usize, each: usize, ns: u64) -> f64 {
    Sim::new(machine).run(|| {
        let pool = started_pool(workers);
        least(|| {
            let handle = pool.handle();
            let parent = pool.spawn(async move {
                let spawn = |_| handle.spawn(async move { work(ns) });
                let children: Vec<_> = (0..each * workers).map(spawn).collect();
                for child in children {
                    child.await.expect("a child does not panic");
                }
            });
            pool.block_on(parent).expect("the parent does not panic");
        })
    })
}

/// Measures a task that spawns one task per worker, of which each spawns and awaits 100 more.
fn fan_out(machine: &Machine, workers: usize) -> f64 {
    async fn spawn_and_await(handle: &Pool) {
        let spawn = |_| handle.spawn(async move { work(2_000) });
        let children: Vec<_> = (0..100).map(spawn).collect();
        for child in children {
            child.await.expect("a child does not panic");
        }
    }
    Sim::new(machine).run(|| {
        let pool = started_pool(workers);
        least(|| {
            let handle = pool.handle();
            let root = pool.spawn(async move {
                let parent = |_| {
                    let own = handle.clone();
                    handle.spawn(async move { spawn_and_await(&own).await })
                };
                let parents: Vec<_> = (0..workers).map(parent).collect();
                for parent in parents {
                    parent.await.expect("a parent does not panic");
                }
            });
            pool.block_on(root).expect("the root does not panic");
        })
    })
}

const CHAIN: u32 = 10_000;

fn chain(machine: &Machine, workers: usize) -> f64 {
    Sim::new(machine).run(|| {
        let pool = pool(workers, SPIN);
        least(|| cases::chain(&pool, CHAIN)) / f64::from(CHAIN)
    })
}

/// Returns the machine without deep idle states, so that the curves of wakes show the runtime.
fn without_deep_idle(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.costs.deep_after = u64::MAX;
    machine
}

fn wake(machine: &Machine, workers: usize, balance: Balance) -> f64 {
    Sim::new(&without_deep_idle(machine)).run(|| {
        let pool = pool(workers, Wait::Park).with_balance(balance);
        let mut starts = vec![0; workers];
        let mut least = f64::INFINITY;
        for _ in 0..10 {
            thread::sleep(Duration::from_micros(50));
            let begin = now_ns();
            // The work is long enough for the loop to be worth sharing.
            profile_only(|| {
                pool.for_each(&mut starts, |start| {
                    *start = now_ns();
                    work(100_000);
                });
            });
            let last = starts.iter().copied().max().unwrap_or(begin);
            least = least.min((last - begin) as f64 / 1e3);
        }
        least
    })
}

fn broadcast(machine: &Machine, workers: usize) -> f64 {
    Sim::new(&without_deep_idle(machine)).run(|| {
        let pool = pool(workers, Wait::Park);
        let mut latest = f64::INFINITY;
        for _ in 0..5 {
            thread::sleep(Duration::from_micros(100));
            let begin = now_ns();
            let times = pool.broadcast(|_| now_ns());
            let last = times.into_iter().max().unwrap_or(begin);
            latest = latest.min((last - begin) as f64 / 1e3);
        }
        latest
    })
}
