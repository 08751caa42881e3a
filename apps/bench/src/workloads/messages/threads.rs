//! A chain of threads of the system, a thread a task, with a stack of a chosen size.

use std::sync::mpsc;
use std::thread;

use super::cost;
use crate::harness::Subject;

/// More would be refused by most systems, and is not what a program would start.
pub const MOST: u64 = 10_001;

/// Sizes of a stack, in KiB.
const STACKS: [usize; 2] = [16, 256];

/// Chains of so many threads, which is bounded by [`MOST`].
pub fn subjects(length: u64) -> Vec<Subject> {
    let subject = |stack: usize| {
        let name = format!("threads, stacks of {stack} KiB");
        Subject::with_metrics(name, move |plan| {
            // The first pass tells whether the system lets so many be.
            chain(length, stack)?;
            Ok(cost::sampled(plan, length, || {
                chain(length, stack).expect("as many as just now");
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
                // A chain that is broken off is dropped from its end.
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
            // The first of the chain waits for it.
            let _ = left.send(0);
        }
        drop(left);
        if refused.is_none() {
            assert_eq!(last.recv(), Ok(length), "the chain is whole");
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
