//! The subjects of the article "Low-overhead Parallelisation in Games" (Anders Musikka, 2020),
//! compared with Creel.
//!
//! The article compares one thread, rayon, a pool of boxed jobs, and a pool that spins, unpinned
//! and pinned. We add Creel, pinned and unpinned. With a sweep, you can choose the number of items
//! and the work per item, to see from which size on each subject pays off.
//!
//! The second case, `two systems`, alternates between two loops, so that each evicts the items of
//! the other from the caches.

use std::hint::black_box;
use std::sync::{Mutex, mpsc};
use std::thread;

use creel::{Placement, Pool};
use creel_topology::{CpuSet, Machine, affinity, place};
use rayon::prelude::*;

use super::floor::in_lockstep;
use super::peers::{one_thread, rayon, rayon_scope};
use super::work::{Loop, Rhythm, busy_work};
use super::{case, knobs};
use crate::harness::{Case, ONE_THREAD, Plan, Subject};
use crate::setting::Setting;

/// The number of items of the loop in the article, unless a sweep sets another one.
const ITEMS: usize = 100_000;
/// The number of items of each system. They take 4 MB, which is more than the second-level cache of
/// most cores.
const SYSTEM: usize = 512 * 1024;

/// Returns the case `article`, which has the subjects of the article and Creel.
pub fn article(setting: &Setting) -> Case {
    let items = vec![0; setting.items.unwrap_or(ITEMS)];
    let plan = setting.plan(20, 40);
    let rounds = setting.rounds(9);
    // These are two separate loops, because the compiler must be able to vectorise the first one.
    let subjects = match setting.work {
        None => rows(items, |item: &mut u64| *item += 1, setting.workers),
        Some(steps) => {
            let steps = u32::try_from(steps).unwrap_or(u32::MAX);
            let each = move |item: &mut u64| *item = busy_work(*item, steps);
            rows(items, each, setting.workers)
        }
    };
    case("article", plan, rounds, subjects)
}

fn rows<F>(items: Vec<u64>, each: F, workers: usize) -> Vec<Subject>
where
    F: Fn(&mut u64) + Clone + Send + Sync + 'static,
{
    let work = Loop {
        items,
        each,
        rhythm: Rhythm::Steady,
    };
    vec![
        knobs::pinned(&work, workers),
        knobs::unpinned(&work, workers),
        one_thread(work.clone()),
        rayon_scope(work.clone(), workers),
        boxed_jobs(work.clone(), workers),
        spinning("spin pool, unpinned", work.clone(), vec![None; workers]),
        spinning("spin pool, pinned", work, worker_cpus(workers)),
    ]
}

/// Returns the CPUs of pinned workers: one core for each, as in Creel.
fn worker_cpus(workers: usize) -> Vec<Option<CpuSet>> {
    let layout = Machine::detect()
        .and_then(|machine| place(&machine, machine.allowed(), workers, &Placement::Cores));
    let worker_cpus = layout.map(|layout| layout.assigned().iter().cloned().map(Some).collect());
    worker_cpus.unwrap_or_else(|_| vec![None; workers])
}

/// Returns a pool whose workers take boxed closures from one locked queue. There is one closure per
/// share of the items.
fn boxed_jobs<F>(work: Loop<u64, F>, workers: usize) -> Subject
where
    F: Fn(&mut u64) + Clone + Send + Sync + 'static,
{
    Subject::new("boxed jobs in a queue", move |plan| {
        let each = &work.each;
        let (send, receive) = mpsc::channel::<Box<dyn FnOnce() + Send + '_>>();
        let (back, done) = mpsc::channel();
        let receive = Mutex::new(receive);
        Ok(thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        // The worker that waits for a job holds the lock, and the other workers
                        // wait for the lock.
                        let job = receive
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .recv();
                        match job {
                            Ok(job) => job(),
                            Err(_) => return,
                        }
                    }
                });
            }
            // Each job owns its share and sends it back, because safe code cannot lend a share to
            // another thread here.
            let share = work.items.len().div_ceil(workers).max(1);
            let mut shares: Vec<Vec<u64>> = work.items.chunks(share).map(<[u64]>::to_vec).collect();
            let value = work.measure(plan, || {
                let count = shares.len();
                for mut share in shares.drain(..) {
                    let back = back.clone();
                    let job = move || {
                        share.iter_mut().for_each(each);
                        // The send cannot fail, because the caller waits for the share.
                        let _ = back.send(share);
                    };
                    send.send(Box::new(job)).expect("the workers still receive");
                }
                shares.extend(done.iter().take(count));
            });
            drop(send);
            value
        }))
    })
}

/// The state of a thread. It has the CPUs to which the thread pins itself in its first call, and
/// its share of the items.
type Side = (Option<CpuSet>, Vec<u64>);

/// Returns a pool whose threads spin between two calls. Each thread, including the caller, has one
/// share of the items.
fn spinning<F>(name: &str, work: Loop<u64, F>, worker_cpus: Vec<Option<CpuSet>>) -> Subject
where
    F: Fn(&mut u64) + Clone + Send + Sync + 'static,
{
    Subject::new(name, move |plan: &Plan| {
        let share = work.items.len().div_ceil(worker_cpus.len()).max(1);
        let shares = work.items.chunks(share).map(<[u64]>::to_vec);
        let sides: Vec<Side> = worker_cpus.iter().cloned().zip(shares).collect();
        let side = |(mask, share): &mut Side| {
            if let Some(mask) = mask.take() {
                // We ignore an error, because a thread that cannot be pinned still runs its share.
                let _ = affinity::set(&mask);
            }
            share.iter_mut().for_each(&work.each);
        };
        // The calling thread is one of the pinned threads. We therefore call from a new thread, so
        // that the mask of the bench itself does not change.
        thread::scope(|scope| {
            let run = || in_lockstep(sides, side, |call| work.measure(plan, call));
            let value = scope.spawn(run).join();
            value.map_err(|_| {
                anyhow::anyhow!(
                    "a thread of the hand-written pool that spins panicked: see its message above"
                )
            })
        })
    })
}

/// Returns the case `two systems`, in which two loops alternate. Each needs more memory than a
/// core's second-level cache.
pub fn two_systems(setting: &Setting) -> Case {
    let workers = setting.workers;
    let creel = |name: &str, placement: Placement| {
        subject(name, move |plan, [a, b]| {
            let pool = Pool::builder()
                .workers(workers)
                .placement(placement.clone())
                .build()?;
            Ok(plan.time(|| {
                pool.for_each(&mut *a, |item| *item += 1);
                pool.for_each(&mut *b, |item| *item += 1);
            }))
        })
    };
    let subjects = vec![
        creel("creel [sticky, adaptive]", Placement::Cores),
        creel("creel [unpinned]", Placement::Unpinned),
        subject(ONE_THREAD, |plan, [a, b]| {
            Ok(plan.time(|| {
                black_box(&mut *a).iter_mut().for_each(|item| *item += 1);
                black_box(&mut *b).iter_mut().for_each(|item| *item += 1);
            }))
        }),
        subject("rayon chunks", move |plan, systems| {
            let pool = rayon(workers)?;
            Ok(plan.time(|| {
                for system in &mut *systems {
                    let share = system.len().div_ceil(workers);
                    let shares = system.par_chunks_mut(share);
                    pool.install(|| shares.for_each(|s| s.iter_mut().for_each(|item| *item += 1)));
                }
            }))
        }),
    ];
    case(
        "two systems",
        setting.plan(40, 80),
        setting.rounds(7),
        subjects,
    )
}

fn subject(
    name: &str,
    sample: impl Fn(&Plan, &mut [Vec<u64>; 2]) -> anyhow::Result<f64> + 'static,
) -> Subject {
    Subject::new(name, move |plan| {
        let mut systems = [vec![0; SYSTEM], vec![0; SYSTEM]];
        sample(plan, &mut systems)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_returns_a_time_at_any_size() {
        for (items, work) in [(1, None), (1000, Some(3))] {
            let mut setting = Setting::of_tests();
            (setting.items, setting.work) = (Some(items), work);
            let article = article(&setting);
            assert_eq!(article.subjects.len(), 7);
            for mut subject in article.subjects {
                let values = (subject.sample)(&article.plan).unwrap();
                assert!(values[0] > 0.0, "{}", subject.name);
            }
        }
    }
}
