//! A frame of several loops, each of which needs the results of the previous one.
//!
//! A session pins its caller, which takes about 10 µs. This is expensive for a frame of 200 µs, but
//! it does not matter for one session around all frames.

use std::hint::black_box;
use std::time::Duration;

use creel::{Balance, Pool, PoolBuilder, Wait};

use super::floor;
use super::work::Loop;
use crate::harness::{ONE_THREAD, Plan, Subject};

/// The number of loops of a frame.
const PHASES: usize = 4;

/// A spin that lasts from one frame to the next.
const SPIN: Wait = Wait::Spin(Duration::from_millis(5));

/// Returns four subjects of Creel, and then one thread and the floor. Creel runs in one session, in
/// one session per frame, without a session, and without a session on a pool that spins.
pub fn subjects<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let default = Pool::builder().workers(workers);
    let spinning = default.clone().balance(Balance::Fixed).wait(SPIN);
    let (around, a_frame) = (default.clone(), default.clone());
    let in_one = subject("creel [session]", work, move |plan, work, items| {
        let pool = around.clone().build()?;
        Ok(pool.session(|all| work.measure(plan, || phases(all, items, &work.each))))
    });
    let in_many = subject("creel [session a frame]", work, move |plan, work, items| {
        let pool = a_frame.clone().build()?;
        let mut call = || pool.session(|frame| phases(frame, items, &work.each));
        Ok(work.measure(plan, &mut call))
    });
    let one_thread = subject(ONE_THREAD, work, |plan, work, items| {
        let mut call = || black_box(&mut *items).iter_mut().for_each(&work.each);
        Ok(work.measure(plan, &mut call))
    });
    vec![
        in_one,
        in_many,
        without("creel [sticky, adaptive]", work, default),
        without("creel [fixed, spin 5 ms]", work, spinning),
        one_thread,
        floor::phases(work, PHASES),
    ]
}

/// Returns a subject that uses a pool without a session.
fn without<T, F>(name: &str, work: &Loop<T, F>, builder: PoolBuilder) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    subject(name, work, move |plan, work, items| {
        let pool = builder.clone().build()?;
        Ok(work.measure(plan, || phases(&pool, items, &work.each)))
    })
}

fn phases<T: Send>(loops: &Pool, items: &mut [T], each: &(impl Fn(&mut T) + Sync)) {
    let phase = items.len().div_ceil(PHASES);
    for items in items.chunks_mut(phase) {
        loops.for_each(items, each);
    }
}

fn subject<T, F>(
    name: &str,
    work: &Loop<T, F>,
    sample: impl Fn(&Plan, &Loop<T, F>, &mut [T]) -> anyhow::Result<f64> + 'static,
) -> Subject
where
    T: Clone + 'static,
    F: Clone + 'static,
{
    let work = work.clone();
    Subject::new(name, move |plan| {
        let mut items = work.items.clone();
        sample(plan, &work, &mut items)
    })
}
