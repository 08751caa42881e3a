//! Compares simulated times with those of an article about games (Anders Musikka, "Low-overhead
//! Parallelisation in Games", 2020), measured on a Ryzen 3900X. In the article, one loop takes:
//!
//! - 13.9 µs on one thread,
//! - 3.7 µs on a spin pool with 12 threads,
//! - 2.5 µs if the threads of this pool are also pinned and always get the same part.
//!
//! We run simple programs of the same kind on the simulated machine.
//!
//! The article adds one to 100,000 numbers of 8 bytes. We simulate less data, which is 10,000 items
//! of 16 bytes. All other numbers come from the table of the machine. No number is fitted to the
//! result.

use creel_sim::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use creel_sim::sync::{Mutex, WaitWord};
use creel_sim::{Arena, Machine, Sim, now_ns, spin_loop, thread, touch_mut, work};
use std::sync::Arc;

#[global_allocator]
static ARENA: Arena = Arena;

const THREADS: usize = 12;
/// The time of a step on one thread, in nanoseconds.
const STEP: u64 = 13_900;
const BYTES: usize = 160_000;
const ROUNDS: u32 = 40;

#[derive(Clone, Copy, PartialEq)]
enum Parts {
    /// Each thread always gets the same part.
    Sticky,
    /// Each thread takes the next part.
    Next,
}

#[repr(align(64))]
struct Line<T>(T);

struct Pool {
    round: Line<AtomicU32>,
    next: Line<AtomicUsize>,
    left: Line<AtomicUsize>,
    /// The address of the data. It is not accessed.
    data: usize,
    parts: Parts,
}

impl Pool {
    fn run_part(&self, part: usize) {
        let bytes = BYTES / THREADS;
        let begin = self.data + part * bytes;
        touch_mut(begin..begin + bytes);
        work(STEP / THREADS as u64);
    }

    fn take_part(&self, thread: usize) {
        match self.parts {
            Parts::Sticky => self.run_part(thread),
            Parts::Next => loop {
                let part = self.next.0.fetch_add(1, AcqRel);
                if part >= THREADS {
                    break;
                }
                self.run_part(part);
            },
        }
        self.left.0.fetch_sub(1, AcqRel);
    }
}

/// Returns the median time of a step, in nanoseconds.
fn spin_pool(parts: Parts) -> u64 {
    let machine = Machine::named("ryzen-3900x").unwrap();
    Sim::new(&machine).run(|| {
        let pool = Arc::new(Pool {
            round: Line(AtomicU32::new(0)),
            next: Line(AtomicUsize::new(0)),
            left: Line(AtomicUsize::new(0)),
            data: 1 << 40,
            parts,
        });
        for index in 1..THREADS {
            let pool = pool.clone();
            // We pin one thread to each core.
            let thread = thread::Builder::new().pin(index * 2).spawn(move || {
                for round in 1..=ROUNDS {
                    while pool.round.0.load(Acquire) != round {
                        spin_loop();
                    }
                    pool.take_part(index);
                }
            });
            drop(thread.unwrap());
        }
        work(1_000_000);
        let mut times: Vec<u64> = (1..=ROUNDS)
            .map(|round| {
                let begin = now_ns();
                pool.next.0.store(0, Relaxed);
                pool.left.0.store(THREADS, Relaxed);
                pool.round.0.store(round, Release);
                pool.take_part(0);
                while pool.left.0.load(Acquire) != 0 {
                    spin_loop();
                }
                now_ns() - begin
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    })
}

#[test]
fn the_time_of_a_sticky_spin_pool_is_near_that_of_the_article() {
    let pinned = spin_pool(Parts::Sticky);
    println!("sticky: {pinned} ns, in the article 2500 ns");
    assert!(
        (1_625..3_375).contains(&pinned),
        "{pinned} ns differs from 2.5 µs by more than 35 %"
    );
}

#[test]
fn the_time_of_a_spin_pool_without_fixed_parts_is_near_that_of_the_article() {
    let any = spin_pool(Parts::Next);
    println!("next part: {any} ns, in the article 3700 ns");
    assert!(
        (2_405..4_995).contains(&any),
        "{any} ns differs from 3.7 µs by more than 35 %"
    );
}

#[test]
fn fixed_parts_are_faster_than_parts_taken_in_turn() {
    let (sticky, any) = (spin_pool(Parts::Sticky), spin_pool(Parts::Next));
    assert!(sticky < any && any < STEP, "{sticky} {any}");
}

/// Runs `THREADS` threads that each call `step` 200 times, and returns the time per call.
fn together(step: impl Fn() + Send + Sync + 'static) -> u64 {
    let step = Arc::new(step);
    let begin = now_ns();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let step = step.clone();
            thread::spawn(move || (0..200).for_each(|_| step()))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    (now_ns() - begin) / (200 * THREADS as u64)
}

#[test]
fn a_ticket_lock_costs_at_least_one_transfer_per_turn() {
    let machine = Machine::named("ryzen-3900x").unwrap();
    let ns = Sim::new(&machine).run(|| {
        let (next, serving) = (Line(AtomicU32::new(0)), Line(AtomicU32::new(0)));
        let inside = AtomicBool::new(false);
        together(move || {
            let ticket = next.0.fetch_add(1, AcqRel);
            while serving.0.load(Acquire) != ticket {
                spin_loop();
            }
            assert!(!inside.swap(true, AcqRel));
            work(10);
            inside.store(false, Relaxed);
            serving.0.store(ticket + 1, Release);
        })
    });
    println!("ticket lock: {ns} ns per turn");
    assert!((24..2_000).contains(&ns), "{ns}");
}

#[test]
fn a_queue_behind_a_mutex_loses_no_item() {
    let machine = Machine::named("ryzen-3900x").unwrap();
    Sim::new(&machine).run(|| {
        let queue = Arc::new(Mutex::new((0..2_400).collect::<Vec<u32>>()));
        let taken = Arc::new(WaitWord::new(0));
        let (theirs, count) = (queue.clone(), taken.clone());
        let ns = together(move || {
            let item = theirs.lock().unwrap().pop();
            assert!(item.is_some());
            count.fetch_add(1, Relaxed);
        });
        println!("mutex queue: {ns} ns per item");
        assert_eq!(taken.load(Relaxed), 2_400);
        assert!(queue.lock().unwrap().is_empty());
    });
}
