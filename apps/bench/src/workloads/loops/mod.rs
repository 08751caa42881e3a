//! Short parallel loops over many items, as in the frame loop of a game.
//!
//! The items are a small model of a game's state. There are 100,000 of eight bytes, which is 800
//! kB. With two workers, each half therefore fits into a second-level cache of 512 kB or more. It
//! stays there between two calls if the same core gets the same half again.

mod article;
mod chains;
pub mod floor;
mod knobs;
#[cfg(feature = "peers")]
mod openmp;
mod outbox;
mod peers;
mod phases;
mod recursion;
#[cfg(feature = "peers")]
mod spinning;
pub mod work;

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::harness::{Case, Metric, Plan, Subject};
use crate::hog;
use crate::setting::Setting;
use crate::workloads::Workload;
use work::{Loop, Rhythm, busy_work};

/// The workload `loops`.
pub const WORKLOAD: Workload = Workload {
    name: "loops",
    about: "short parallel loops over 100,000 items, as in a game",
    cases,
};

const ITEMS: usize = 100_000;
const TIME: Metric = Metric {
    name: "time",
    unit: "ns a call",
};
const BURNT: Metric = Metric {
    name: "burnt",
    unit: "cores",
};

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    Ok(vec![
        hot(setting),
        noop(setting),
        frame(setting),
        frame_in_phases(setting),
        uneven_linear(setting),
        uneven_heavy(setting),
        next_to_a_hog(setting),
        half_a_core(setting),
        idle(setting),
        oversubscribed(setting),
        outbox(setting),
        chain(setting, "zip-map-sum 1 M", 1_000_000),
        chain(setting, "zip-map-sum 10 k", 10_000),
        nested(setting),
        tree(setting, "tree sum 1,023", 10),
        tree(setting, "tree sum 131,071", 17),
        tree(setting, "tree sum 1,048,575", 20),
        recursive(setting, "fib 32", recursion::fib(32, setting.workers)),
        recursive(
            setting,
            "quicksort 16",
            recursion::sorts(16, setting.workers),
        ),
        recursive(
            setting,
            "quicksort 1,000",
            recursion::sorts(1000, setting.workers),
        ),
        recursive(setting, "scope 100 k", recursion::scope(setting.workers)),
        article::article(setting),
        article::two_systems(setting),
    ])
}

fn case(name: &str, plan: Plan, rounds: usize, subjects: Vec<Subject>) -> Case {
    Case {
        name: name.into(),
        metrics: vec![TIME],
        compared: true,
        plan,
        rounds,
        subjects,
    }
}

/// Returns a loop that adds one to each of 100,000 numbers.
fn plus_one(rhythm: Rhythm) -> Loop<u64, impl Fn(&mut u64) + Clone + Send + Sync> {
    let each = |item: &mut u64| *item += 1;
    Loop {
        items: vec![0; ITEMS],
        each,
        rhythm,
    }
}

/// Returns a loop in which each item is the number of steps of work that it costs.
fn by_steps(items: Vec<u32>) -> Loop<u32, impl Fn(&mut u32) + Clone + Send + Sync> {
    let each = |steps: &mut u32| _ = busy_work(u64::from(*steps), *steps);
    Loop {
        items,
        each,
        rhythm: Rhythm::Steady,
    }
}

/// Returns Creel with several settings, and then the peers.
fn subjects<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let mut subjects = knobs::loops(work, workers);
    subjects.extend(peers::loops(work, workers));
    #[cfg(feature = "peers")]
    subjects.extend(spinning::loops(work, workers));
    subjects
}

/// Returns the case `hot`, in which a short loop is called without a pause.
fn hot(setting: &Setting) -> Case {
    let work = plus_one(Rhythm::Steady);
    let mut subjects = subjects(&work, setting.workers);
    subjects.extend(peers::rayon_inside(&work, setting.workers));
    subjects.push(floor::two_halves(&work));
    case("hot", setting.plan(20, 40), setting.rounds(7), subjects)
}

/// Returns the case `noop`, which has one item per worker and nothing to do. It shows the cost of
/// dispatch and join.
fn noop(setting: &Setting) -> Case {
    let each = |item: &mut u64| _ = black_box(item);
    let work = Loop {
        items: vec![0; setting.workers],
        each,
        rhythm: Rhythm::Steady,
    };
    let mut subjects = subjects(&work, setting.workers);
    subjects.push(floor::two_halves(&work));
    case("noop", setting.plan(10, 20), setting.rounds(7), subjects)
}

/// Returns a loop with 200 µs of work after each millisecond of sleep. We calibrate the amount of
/// work on one thread of this machine.
fn frames() -> Loop<u64, impl Fn(&mut u64) + Clone + Send + Sync> {
    let each = |item: &mut u64| *item = busy_work(*item, 2);
    Loop {
        items: (0..items_in(Duration::from_micros(200), each)).collect(),
        each,
        rhythm: Rhythm::Frames(Duration::from_millis(1)),
    }
}

/// Returns the case `frame`, in which one loop does the work of a frame.
fn frame(setting: &Setting) -> Case {
    let work = frames();
    let mut subjects = subjects(&work, setting.workers);
    subjects.extend(peers::rayon_inside(&work, setting.workers));
    subjects.push(floor::two_halves(&work));
    case("frame", setting.plan(40, 80), setting.rounds(7), subjects)
}

/// Returns the case `frame in phases`, in which several loops, one after another, do the work of a
/// frame.
fn frame_in_phases(setting: &Setting) -> Case {
    let subjects = phases::subjects(&frames(), setting.workers);
    let plan = setting.plan(40, 80);
    case("frame in phases", plan, setting.rounds(7), subjects)
}

/// Returns how many items one thread processes in `time`, rounded down to a multiple of 100.
fn items_in(time: Duration, each: impl Fn(&mut u64)) -> u64 {
    let mut some: Vec<u64> = (0..ITEMS as u64).collect();
    let once = (0..7).map(|_| {
        let begin = Instant::now();
        some.iter_mut().for_each(&each);
        begin.elapsed()
    });
    let once = once.min().unwrap_or(time);
    (ITEMS as f64 * time.as_secs_f64() / once.as_secs_f64() / 100.0) as u64 * 100
}

/// Returns the case `uneven`. It has 1,024 items, whose cost grows linearly from nothing for the
/// first one.
fn uneven_linear(setting: &Setting) -> Case {
    let work = by_steps((0..1024).map(|index| index / 5).collect());
    case(
        "uneven",
        setting.plan(20, 40),
        setting.rounds(7),
        subjects(&work, setting.workers),
    )
}

/// Returns the case `uneven heavy`, in which one of 64 items takes thirty times as long as the
/// others.
fn uneven_heavy(setting: &Setting) -> Case {
    let work = by_steps(
        (0..64)
            .map(|index| if index == 20 { 30_000 } else { 1000 })
            .collect(),
    );
    let subjects = subjects(&work, setting.workers);
    case(
        "uneven heavy",
        setting.plan(20, 40),
        setting.rounds(7),
        subjects,
    )
}

/// Returns the case `hog`. It is like `hot`, next to a thread that spins on the last usable PU.
fn next_to_a_hog(setting: &Setting) -> Case {
    let subjects = subjects(&plus_one(Rhythm::Steady), setting.workers);
    let subjects = subjects.into_iter().map(hog::with_hog).collect();
    case("hog", setting.plan(40, 80), setting.rounds(7), subjects)
}

/// Returns the case `half a core`. It has about 20 ms of equal items, next to a thread that takes
/// half of the last usable PU. This way, the cores are not equally fast.
fn half_a_core(setting: &Setting) -> Case {
    let work = by_steps(vec![2_500; 4_096]);
    let subjects = subjects(&work, setting.workers);
    let subjects = subjects.into_iter().map(hog::with_hog).collect();
    let plan = setting.plan(80, 160);
    case("half a core", plan, setting.rounds(4), subjects)
}

/// Returns the case `idle`, which measures the CPU time that idle workers use.
fn idle(setting: &Setting) -> Case {
    let subjects = subjects(&plus_one(Rhythm::Idle), setting.workers);
    let case = case("idle", setting.plan(20, 100), setting.rounds(3), subjects);
    Case {
        metrics: vec![BURNT],
        compared: false,
        ..case
    }
}

/// Returns the case `oversubscribed`. It is like `hot`, but with four times as many workers as
/// usual. Its second subject is Creel with the usual number of workers, so that you see what the
/// additional workers cost.
fn oversubscribed(setting: &Setting) -> Case {
    let work = plus_one(Rhythm::Steady);
    let mut subjects = subjects(&work, setting.workers * 4);
    subjects.insert(1, knobs::not_oversubscribed(&work, setting.workers));
    let plan = setting.plan(40, 80);
    case("oversubscribed", plan, setting.rounds(7), subjects)
}

/// Returns the case `outbox`, in which each of 100,000 senders sends a message to one of 100,000
/// receivers.
fn outbox(setting: &Setting) -> Case {
    let plan = setting.plan(20, 60);
    case(
        "outbox",
        plan,
        setting.rounds(7),
        outbox::subjects(setting.workers),
    )
}

/// Returns a case with a chain of iterators over `count` pairs of numbers.
fn chain(setting: &Setting, name: &str, count: usize) -> Case {
    let subjects = chains::zip_map_sum(count, setting.workers);
    case(name, setting.plan(20, 60), setting.rounds(7), subjects)
}

/// Returns the case `nested`, which runs two loops at the same time.
fn nested(setting: &Setting) -> Case {
    let subjects = chains::nested(setting.workers);
    case("nested", setting.plan(20, 60), setting.rounds(7), subjects)
}

/// Returns a case with the sum of a binary tree, with one join per node.
fn tree(setting: &Setting, name: &str, depth: u32) -> Case {
    recursive(setting, name, recursion::tree(depth, setting.workers))
}

/// Returns a case with a recursion.
fn recursive(setting: &Setting, name: &str, subjects: Vec<Subject>) -> Case {
    case(name, setting.plan(20, 60), setting.rounds(7), subjects)
}
