//! Loops beside their peers, interleaved in one run: `cargo bench -p creel --bench dispatch`.
//!
//! Prints for each case the median time of a call and its ratio to one thread's. The floor is
//! two threads that spin for each other by hand and do nothing else.

use creel::{Balance, Pool, Wait};
use std::{
    cell::RefCell,
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const ITEMS: usize = 100_000;
const ROUNDS: usize = 15;

fn add_one(items: &mut [i64]) {
    for item in items {
        *item = item.wrapping_add(1);
    }
}

/// Some work that takes about `steps` × 2 ns and cannot be left out.
fn burn(steps: u64) {
    for _ in 0..steps {
        black_box(black_box(steps) / 3);
    }
}

/// A subject: does the case's work once.
type Call<'a> = Box<dyn FnMut() + 'a>;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the subjects in turns, `calls` at a time with `rest` between calls, and prints.
fn compare(case: &str, calls: usize, rest: Duration, subjects: &mut [(&str, Call<'_>)]) {
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for (times, (_, call)) in times.iter_mut().zip(subjects.iter_mut()) {
            let mut spent = Duration::ZERO;
            for _ in 0..calls {
                if !rest.is_zero() {
                    thread::sleep(rest);
                }
                let begin = Instant::now();
                if rest.is_zero() {
                    for _ in 0..64 {
                        call();
                    }
                } else {
                    call();
                }
                spent += begin.elapsed();
            }
            let each = if rest.is_zero() { calls * 64 } else { calls };
            times.push(spent.as_nanos() as f64 / each as f64);
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    for ((name, _), time) in subjects.iter().zip(&medians) {
        println!(
            "{case:12} {name:24} {time:12.0} ns {:8.3}",
            time / medians[0]
        );
    }
}

/// Two threads that spin for each other: the least that a dispatch can cost here.
struct Floor {
    turn: AtomicU64,
    done: AtomicU64,
    job: AtomicUsize,
    end: AtomicBool,
}

impl Floor {
    fn serve(&self) {
        let mut seen = 0;
        while !self.end.load(Ordering::Relaxed) {
            let turn = self.turn.load(Ordering::Acquire);
            if turn == seen {
                spin_loop();
                continue;
            }
            seen = turn;
            let job = self.job.load(Ordering::Relaxed) as *mut i64;
            if !job.is_null() {
                // SAFETY: `call` waits for `done` before it uses the second half again.
                add_one(unsafe { std::slice::from_raw_parts_mut(job, ITEMS - ITEMS / 2) });
            }
            self.done.store(turn, Ordering::Release);
        }
    }

    fn call(&self, items: Option<&mut [i64]>) {
        let turn = self.turn.load(Ordering::Relaxed) + 1;
        let (own, other) = match items {
            Some(items) => items.split_at_mut(ITEMS / 2),
            None => Default::default(),
        };
        let address = if other.is_empty() {
            0
        } else {
            other.as_mut_ptr() as usize
        };
        self.job.store(address, Ordering::Relaxed);
        self.turn.store(turn, Ordering::Release);
        add_one(own);
        while self.done.load(Ordering::Acquire) != turn {
            spin_loop();
        }
    }
}

fn pool(workers: usize, wait: Wait, balance: Balance) -> Pool {
    let builder = Pool::builder().workers(workers).wait(wait).balance(balance);
    builder.build().expect("in range")
}

fn hot(rayon: &rayon::ThreadPool) {
    // One array for all: where its pages happen to lie makes a difference of a third.
    let items = RefCell::new(vec![0_i64; ITEMS]);
    let items = || black_box(items.borrow_mut());
    let sticky = pool(2, Wait::Adaptive, Balance::Sticky);
    let fixed = pool(2, Wait::Adaptive, Balance::Fixed);
    let eight = pool(8, Wait::Adaptive, Balance::Sticky);
    let floor = Floor {
        turn: 0.into(),
        done: 0.into(),
        job: 0.into(),
        end: false.into(),
    };
    let chunk = |pool: &Pool, items: &mut [i64]| {
        pool.for_each_chunk_mut(items, 1000, |_, part| add_one(part));
    };
    compare(
        "hot",
        100,
        Duration::ZERO,
        &mut [
            ("one thread", Box::new(|| add_one(&mut items()))),
            (
                "creel",
                Box::new(|| sticky.for_each_mut(&mut items(), |_, x| *x += 1)),
            ),
            (
                "creel fixed",
                Box::new(|| fixed.for_each_mut(&mut items(), |_, x| *x += 1)),
            ),
            ("creel chunks", Box::new(|| chunk(&sticky, &mut items()))),
            (
                "creel, 8 workers",
                Box::new(|| eight.for_each_mut(&mut items(), |_, x| *x += 1)),
            ),
            (
                "rayon scope",
                Box::new(|| {
                    let mut items = items();
                    let items: &mut [i64] = &mut items;
                    rayon.scope(|s| {
                        for part in items.chunks_mut(ITEMS / 2) {
                            s.spawn(|_| add_one(part));
                        }
                    });
                }),
            ),
        ],
    );
    thread::scope(|s| {
        s.spawn(|| floor.serve());
        compare(
            "hot",
            100,
            Duration::ZERO,
            &mut [
                ("one thread", Box::new(|| add_one(&mut items()))),
                (
                    "two halves, by hand",
                    Box::new(|| floor.call(Some(&mut items()))),
                ),
            ],
        );
        compare(
            "noop",
            200,
            Duration::ZERO,
            &mut [("two halves, by hand", Box::new(|| floor.call(None)))],
        );
        floor.end.store(true, Ordering::Relaxed);
    });
    let mut two = [0_u8; 2];
    let mut again = [0_u8; 2];
    compare(
        "noop",
        200,
        Duration::ZERO,
        &mut [
            (
                "creel fixed",
                Box::new(|| fixed.for_each_mut(black_box(&mut two), |_, _| ())),
            ),
            (
                "creel",
                Box::new(|| sticky.for_each_mut(black_box(&mut again), |_, _| ())),
            ),
            ("rayon scope", Box::new(|| rayon.scope(|s| s.spawn(|_| ())))),
        ],
    );
}

fn frame(rayon: &rayon::ThreadPool) {
    let sticky = pool(2, Wait::Adaptive, Balance::Sticky);
    let park = pool(2, Wait::Park, Balance::Sticky);
    let one = |range: std::ops::Range<u64>| range.for_each(|_| burn(1000));
    let rest = Duration::from_millis(1);
    compare(
        "frame",
        40,
        rest,
        &mut [
            ("one thread", Box::new(|| one(0..200))),
            (
                "creel",
                Box::new(|| sticky.for_each_index(0..200, |_| one(0..1))),
            ),
            (
                "creel park",
                Box::new(|| park.for_each_index(0..200, |_| one(0..1))),
            ),
            (
                "rayon scope",
                Box::new(|| {
                    rayon.scope(|s| {
                        s.spawn(|_| one(0..100));
                        s.spawn(|_| one(0..100));
                    });
                }),
            ),
        ],
    );
}

fn uneven(rayon: &rayon::ThreadPool) {
    let sticky = pool(2, Wait::Adaptive, Balance::Sticky);
    let shared = sticky.with(Balance::Shared);
    let linear = |i: usize| burn(i as u64 / 10);
    let heavy = |i: usize| burn(if i == 40 { 30_000 } else { 1000 });
    use rayon::prelude::*;
    compare(
        "linear",
        4,
        Duration::ZERO,
        &mut [
            ("one thread", Box::new(|| (0..1000).for_each(linear))),
            ("creel", Box::new(|| sticky.for_each_index(0..1000, linear))),
            (
                "creel shared",
                Box::new(|| shared.for_each_index(0..1000, linear)),
            ),
            (
                "rayon par_iter",
                Box::new(|| rayon.install(|| (0..1000).into_par_iter().for_each(linear))),
            ),
        ],
    );
    compare(
        "one of 64",
        4,
        Duration::ZERO,
        &mut [
            ("one thread", Box::new(|| (0..64).for_each(heavy))),
            ("creel", Box::new(|| sticky.for_each_index(0..64, heavy))),
            (
                "creel shared",
                Box::new(|| shared.for_each_index(0..64, heavy)),
            ),
            (
                "rayon par_iter",
                Box::new(|| rayon.install(|| (0..64).into_par_iter().for_each(heavy))),
            ),
        ],
    );
}

/// One thread, as many calls as fit in `time`: ns a call.
fn sustained(time: Duration, mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut calls = 0_u32;
    while begin.elapsed() < time {
        (0..16).for_each(|_| call());
        calls += 16;
    }
    begin.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn hog(rayon: &rayon::ThreadPool) {
    let sticky = pool(2, Wait::Adaptive, Balance::Sticky);
    let mut items = vec![0_i64; ITEMS];
    let mut times = [const { Vec::new() }; 3];
    let time = Duration::from_millis(300);
    for _ in 0..7 {
        times[0].push(sustained(time, || add_one(black_box(&mut items))));
        let end = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    burn(1000);
                }
            });
            times[1].push(sustained(time, || {
                sticky.for_each_mut(&mut items, |_, x| *x += 1)
            }));
            times[2].push(sustained(time, || {
                rayon.scope(|s| {
                    for part in items.chunks_mut(ITEMS / 2) {
                        s.spawn(|_| add_one(part));
                    }
                });
            }));
            end.store(true, Ordering::Relaxed);
        });
    }
    let [alone, creel, peer] = times.map(median);
    println!(
        "hog          throughput of one thread alone: creel {:.2}, rayon scope {:.2}",
        alone / creel,
        alone / peer
    );
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let _ = stat;
    let ns = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ns.sum())
}

fn idle() {
    for (name, wait) in [("adaptive", Wait::Adaptive), ("park", Wait::Park)] {
        let pool = pool(2, wait, Balance::Sticky);
        let mut items = vec![0_i64; ITEMS];
        sustained(Duration::from_millis(50), || {
            pool.for_each_mut(&mut items, |_, x| *x += 1)
        });
        thread::sleep(Duration::from_millis(100));
        let (begin, cpu) = (Instant::now(), cpu_time());
        thread::sleep(Duration::from_secs(1));
        let burnt = (cpu_time() - cpu).as_secs_f64() / begin.elapsed().as_secs_f64();
        println!("idle         creel {name}: {burnt:.4} cores after 100 ms");
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let is_wanted = |case: &str| wanted.is_empty() || wanted.iter().any(|w| w == case);
    let rayon = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .expect("threads");
    if is_wanted("hot") {
        hot(&rayon);
    }
    if is_wanted("frame") {
        frame(&rayon);
    }
    if is_wanted("uneven") {
        uneven(&rayon);
    }
    if is_wanted("hog") {
        hog(&rayon);
    }
    if is_wanted("idle") {
        idle();
    }
}
