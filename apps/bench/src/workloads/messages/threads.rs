//! A chain of OS threads: one thread per task, with stacks of two sizes.

use std::sync::mpsc;
use std::thread;

use super::cost;
use crate::harness::Subject;

/// The length of the longest chain. Most systems refuse more threads, and programs do not start
/// more.
pub const MOST: u64 = 10_001;

/// The sizes of the stacks in KiB. There is one subject for each size.
const STACKS: [usize; 2] = [16, 256];

/// Returns chains of `length` threads, which must be at most [`MOST`].
pub fn subjects(length: u64) -> Vec<Subject> {
    let subject = |stack: usize| {
        let name = format!("threads, stacks of {stack} KiB");
        Subject::with_metrics(name, move |plan| {
            // We make one pass before the measurement. It returns an error if the system does not
            // allow this number of threads.
            chain(length, stack)?;
            Ok(cost::sampled(plan, length, || {
                chain(length, stack).expect("the system allowed as many threads before");
            }))
        })
    };
    STACKS.map(subject).into()
}

fn chain(length: u64, stack_kib: usize) -> anyhow::Result<()> {
    let (mut left, last) = mpsc::channel::<u64>();
    let mut refused = None;
    thread::scope(|scope| {
        for _ in 0..length {
            let (next, right) = mpsc::channel();
            let forward = move || {
                // Receiving fails if the system has refused a thread further on. Each thread then
                // ends and drops its sender, which ends the next one.
                if let Ok(number) = right.recv() {
                    let _ = left.send(number + 1);
                }
            };
            let builder = thread::Builder::new().stack_size(stack_kib * 1024);
            left = next;
            if let Err(error) = builder.spawn_scoped(scope, forward) {
                refused = Some(error);
                break;
            }
        }
        if refused.is_none() {
            // The send cannot fail, because the first thread of the chain waits for the number.
            let _ = left.send(0);
        }
        drop(left);
        if refused.is_none() {
            assert_eq!(last.recv(), Ok(length), "every thread passed the number on");
        }
    });
    refused.map_or(Ok(()), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_threads_passes_the_number() {
        chain(50, 64).unwrap();
    }
}
