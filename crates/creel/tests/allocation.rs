//! Tests that the dispatch of a loop allocates nothing if the same call site has run a loop before.

use creel::{Balance, Outbox, Pool, Wait};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The system's allocator, which also counts allocations.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract for `alloc` is the one that we need here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract for `dealloc` is the one that we need here.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts the leaves of a recursion.
fn leaves(pool: &Pool, depth: u32) -> u32 {
    if depth == 0 {
        return 1;
    }
    let (a, b) = pool.join(|| leaves(pool, depth - 1), || leaves(pool, depth - 1));
    a + b
}

#[test]
fn a_loop_whose_call_site_has_run_before_allocates_nothing() {
    for wait in [Wait::Adaptive, Wait::Park] {
        let pool = Pool::builder().workers(3).wait(wait).build().unwrap();
        let mut items = vec![0_u64; 50_000];
        let mut receivers = vec![0_u64; 5000];
        let mut outbox = Outbox::new();
        let mut frame = || {
            for balance in [Balance::Fixed, Balance::Sticky, Balance::Shared] {
                let loops = pool.with_balance(balance);
                loops.for_each_indexed(&mut items, |i, x| *x += i as u64);
                loops.for_each_chunk(&mut items, 100, |part| part.reverse());
                loops.for_each_indexed((&mut items, outbox.for_receivers(5000)), |i, (_, post)| {
                    post.send(i % 5000, 1_u64);
                });
                loops.deliver(&mut outbox, &mut receivers, |x, m| *x += m);
                assert_eq!(leaves(&loops, 8), 256);
            }
        };
        (0..40).for_each(|_| frame());
        // We do not count allocations that happen only once. Examples are the start of a thread
        // that starts late, and the memory that a worker uses for a search. Another example is the
        // shared job that a caller publishes while a worker is busy in user code.
        let meeting = Arc::new(Barrier::new(pool.workers() + 1));
        for task in (0..pool.workers()).map(|_| Arc::clone(&meeting)) {
            pool.spawn_fn(move || task.wait()).detach();
        }
        meeting.wait();
        pool.broadcast(|_| ());
        pool.scope(|s| s.spawn(|| ()));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..40).for_each(|_| frame());
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    }
}
