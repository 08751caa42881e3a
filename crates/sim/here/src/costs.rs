//! Measures the steps in the table of costs of a simulated machine (`crates/sim/src/machine.rs`),
//! on two PUs.

use crate::clock::{now_ns, work};
use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use Ordering::SeqCst;

/// The PUs on which the steps are measured.
pub type Pus = [usize; 2];

/// Returns the name and the median cost of each step in nanoseconds.
pub fn measure(pus: Pus) -> Vec<(&'static str, u64)> {
    pin(pus[0]);
    let (line, migrates) = transfer(pus);
    let (wake, idle_exit) = wake(pus, 50_000);
    let (_, deep_exit) = wake_after_sleep(pus);
    // A thread that wakes another one on the same PU and then sleeps spends a wake without an
    // interrupt, the sleep and the switch. We cannot tell the last two apart, so we give each of
    // them one half.
    let syscall = each(wake_nobody);
    let half = hand_over(pus[0]).saturating_sub(syscall) / 2;
    vec![
        ("hit", hit()),
        ("rmw", rmw()),
        ("same_core", line),
        ("same_l3", line),
        ("same_package", line),
        ("migrates", migrates),
        ("memory", memory()),
        ("pause", each(spin_loop)),
        ("clock", each(Instant::now)),
        ("syscall", syscall),
        ("sleep", half),
        ("switch", half),
        ("wake", wake),
        ("idle_exit", idle_exit),
        ("deep_exit", deep_exit),
        ("spawn", start()),
        ("timer", time_out()),
        ("smt_percent", smt_percent(pus)),
    ]
}

fn pin(pu: usize) {
    let mut set = CpuSet::new();
    set.set(pu);
    // Without the right to pin, the results are those of wherever the threads run.
    let _ = sched_setaffinity(None, &set);
}

/// Starts a thread that runs on `pu`, and returns once it does. The calling thread may keep its own
/// PU busy from then on.
fn start_on<'scope>(scope: &'scope Scope<'scope, '_>, pu: usize, f: impl FnOnce() + Send + 'scope) {
    let runs = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&runs);
    scope.spawn(move || {
        pin(pu);
        theirs.store(true, SeqCst);
        f();
    });
    while !runs.load(SeqCst) {
        thread::sleep(Duration::from_micros(100));
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the cost of a step that is too short to time alone.
fn each<R>(step: impl Fn() -> R) -> u64 {
    const STEPS: u64 = 10_000;
    let time = |_| {
        let begin = now_ns();
        for _ in 0..STEPS {
            black_box(step());
        }
        now_ns() - begin
    };
    median((0..21).map(time).collect()).div_ceil(STEPS)
}

/// Divides, and rounds to the nearest number.
fn nearest(ns: u64, by: u64) -> u64 {
    (ns + by / 2) / by
}

/// Returns the latency of a load that hits the core's own cache. Each address depends on the load
/// before.
fn hit() -> u64 {
    const LOADS: u64 = 64;
    let next: [AtomicUsize; 8] = std::array::from_fn(|at| AtomicUsize::new(at * 5 + 1));
    let follow = || (0..LOADS).fold(0, |at, _| next[at % next.len()].load(SeqCst));
    nearest(each(follow), LOADS)
}

/// Returns the time of a read-modify-write of a cache line that the core owns. Two of them on the
/// same cache line would wait for each other, and programs rarely have that, so we take turns.
fn rmw() -> u64 {
    #[repr(align(128))]
    #[derive(Default)]
    struct Line(AtomicU64);
    let lines: [Line; 8] = Default::default();
    let round = || lines.each_ref().map(|line| line.0.fetch_add(1, SeqCst));
    nearest(each(round), lines.len() as u64)
}

/// Returns the time of a read of a cache line that another core has modified. The second value is 1
/// if the cache line moves to the reader then, and 0 if both cores have a copy of it.
///
/// The times are means of many cache lines, because the time of one of them depends on its place in
/// the L3 cache. The order is random, and each address depends on the read before, so that the
/// reads do not overlap.
fn transfer(pus: Pus) -> (u64, u64) {
    const LINES: usize = 64;
    const ROUNDS: u64 = 1_000;
    #[repr(align(128))]
    #[derive(Default)]
    struct Line(AtomicU64);
    let lines: [Line; LINES] = std::array::from_fn(|_| Line::default());
    let mut order: [usize; LINES] = std::array::from_fn(|at| at);
    let mut random: u64 = 1;
    for at in (1..LINES).rev() {
        // The constant of Knuth's generator MMIX.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        order.swap(at, (random >> 33) as usize % (at + 1));
    }
    let read = |line: &Line| black_box(line.0.load(SeqCst));
    let write_all = || {
        for line in &lines {
            line.0.fetch_add(1, SeqCst);
        }
    };
    let time = || {
        let begin = now_ns();
        // The values are small, so adding their upper bits does not change the address.
        let last = order.iter().fold(0, |last: u64, at| {
            read(&lines[at + (black_box(last) >> 32) as usize])
        });
        black_box(last);
        (now_ns() - begin) / LINES as u64
    };
    let (asked, done) = (Line::default(), Line::default());
    let wait_for = |line: &Line, n: u64| {
        while line.0.load(SeqCst) < n {
            spin_loop();
        }
    };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        start_on(scope, pus[1], || {
            for n in 1..=2 * ROUNDS {
                wait_for(&asked, n);
                match n % 2 {
                    1 => write_all(),
                    _ => lines.iter().for_each(|line| {
                        read(line);
                    }),
                }
                done.0.store(n, SeqCst);
            }
        });
        let let_other_access = |n| {
            asked.0.store(n, SeqCst);
            wait_for(&done, n);
        };
        for round in 0..ROUNDS {
            let_other_access(2 * round + 1);
            first.push(time());
            write_all();
            let_other_access(2 * round + 2);
            again.push(time());
        }
    });
    let (first, again) = (median(first), median(again));
    (first, u64::from(again > first / 2))
}

fn wake_nobody() {
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    let _ = futex::wake(&NOBODY, Flags::PRIVATE, 1);
}

fn sleep_while(word: &AtomicU32, value: u32) {
    while word.load(SeqCst) == value {
        let _ = futex::wait(word, Flags::PRIVATE, value, None);
    }
}

fn wake_from(word: &AtomicU32, value: u32) {
    word.store(value, SeqCst);
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// Returns the time of a futex wake, and the time from its end until the other thread runs. That
/// thread has slept for about `idle_ns`, while this thread has computed.
fn wake(pus: Pus, idle_ns: u64) -> (u64, u64) {
    wake_with(pus, || work(idle_ns))
}

/// Does the same, after both PUs have been idle for 2 ms.
fn wake_after_sleep(pus: Pus) -> (u64, u64) {
    wake_with(pus, || thread::sleep(Duration::from_millis(2)))
}

fn wake_with(pus: Pus, rest: impl Fn()) -> (u64, u64) {
    const WAKES: u32 = 500;
    let (word, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let ran_ns = AtomicU64::new(0);
    let (mut wakes, mut exits) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        start_on(scope, pus[1], || {
            for n in 0..WAKES {
                sleep_while(&word, n);
                ran_ns.store(now_ns(), SeqCst);
                done.store(n + 1, SeqCst);
            }
        });
        for n in 1..=WAKES {
            rest();
            let begin = now_ns();
            wake_from(&word, n);
            let end = now_ns();
            while done.load(SeqCst) < n {
                spin_loop();
            }
            wakes.push(end - begin);
            exits.push(ran_ns.load(SeqCst).saturating_sub(end));
        }
    });
    (median(wakes), median(exits))
}

/// Returns the time in which one thread wakes another one on the same PU and then sleeps, until the
/// other one runs.
fn hand_over(pu: usize) -> u64 {
    const TURNS: u32 = 2_000;
    let word = AtomicU32::new(0);
    let take_turns = |odd: u32| {
        for n in (odd..2 * TURNS).step_by(2) {
            while word.load(SeqCst) != n {
                let now = word.load(SeqCst);
                if now != n {
                    let _ = futex::wait(&word, Flags::PRIVATE, now, None);
                }
            }
            wake_from(&word, n + 1);
        }
    };
    let begin = now_ns();
    thread::scope(|scope| {
        start_on(scope, pu, || take_turns(1));
        take_turns(0);
    });
    (now_ns() - begin) / u64::from(2 * TURNS)
}

/// Returns the time of a load that no cache has.
fn memory() -> u64 {
    const LINES: usize = 1 << 20;
    const STEPS: usize = 200_000;
    #[repr(align(64))]
    #[derive(Clone)]
    struct Line(usize);
    // A full-period linear congruential generator visits every cache line once.
    let next = |at: usize| (at.wrapping_mul(0x5_deec_e66d) + 11) % LINES;
    let lines: Vec<Line> = (0..LINES).map(|at| Line(next(at))).collect();
    let begin = now_ns();
    let last = (0..STEPS).fold(0, |at, _| black_box(lines[at].0));
    black_box(last);
    (now_ns() - begin) / STEPS as u64
}

/// Returns the time of the start of a thread, as its parent sees it.
fn start() -> u64 {
    let time = |_| {
        let begin = now_ns();
        let thread = thread::spawn(|| ());
        let end = now_ns();
        drop(thread.join());
        end - begin
    };
    median((0..101).map(time).collect())
}

/// Returns by how much a short sleep exceeds its time.
fn time_out() -> u64 {
    let asked = Duration::from_micros(100);
    let time = |_| {
        let begin = now_ns();
        thread::sleep(asked);
        now_ns() - begin
    };
    median((0..101).map(time).collect()).saturating_sub(asked.as_nanos() as u64)
}

/// Returns the speed of a PU while the other one computes, in percent of its speed while the other
/// one is idle.
fn smt_percent(pus: Pus) -> u64 {
    let compute = || {
        let begin = now_ns();
        black_box((0..2_000_000_u64).fold(1, |hash: u64, n| {
            black_box((hash ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        }));
        now_ns() - begin
    };
    let time = || median((0..11).map(|_| compute()).collect());
    let alone = time();
    let stop = AtomicBool::new(false);
    let together = thread::scope(|scope| {
        start_on(scope, pus[1], || {
            while !stop.load(SeqCst) {
                compute();
            }
        });
        let together = time();
        stop.store(true, SeqCst);
        together
    });
    (alone * 100 / together.max(1)).min(100)
}
