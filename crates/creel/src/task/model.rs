//! Models of tasks for loom. They cover the state machine with its cells, the queues and the heaps,
//! in every interleaving of two or three threads with at most three preemptions. A stub, which is a
//! queue under a lock, replaces the pool.

use super::cell::{Ran, Schedule, Task};
use super::join::{JoinError, JoinHandle};
use super::lifo::Lifo;
use super::local::Counters;
use super::run_queue::RunQueue;
use super::slab::{Block, Heap};
use super::state::State;
use crate::sync::{AtomicPtr, lock};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A scheduler that only stores the tasks that it receives.
struct Stub(Mutex<Vec<Task>>);

impl Schedule for Stub {
    fn schedule(self: Arc<Self>, task: Task) {
        lock(&self.0).push(task);
    }
}

impl Stub {
    fn run_all(&self, counters: &Counters) {
        loop {
            let Some(task) = lock(&self.0).pop() else {
                return;
            };
            // A new task, or one that was woken during its poll, is scheduled by hints. Any other
            // task is only in this queue.
            let hinted = task.state().claim_hinted();
            let claim = hinted.unwrap_or_else(|| task.state().claim_queued());
            // SAFETY: we have just claimed the task, so only this thread runs it.
            if unsafe { task.run(claim, counters) } == Ran::Again {
                lock(&self.0).push(task);
            }
        }
    }
}

/// A future that is ready at its second poll. It hands out its waker at the first poll, and counts
/// its drop.
struct Twice {
    give: Arc<Mutex<Option<Waker>>>,
    dropped: Arc<AtomicUsize>,
    polled: bool,
}

impl Future for Twice {
    type Output = Box<u8>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Box<u8>> {
        if std::mem::replace(&mut self.polled, true) {
            return Poll::Ready(Box::new(7));
        }
        *lock(&self.give) = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Twice {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

struct Scene {
    stub: Arc<Stub>,
    heap: NonNull<Heap>,
    give: Arc<Mutex<Option<Waker>>>,
    dropped: Arc<AtomicUsize>,
    handle: JoinHandle<Box<u8>>,
}

// SAFETY: only one thread at a time uses the heap pointer.
unsafe impl Send for Scene {}

fn scene() -> Scene {
    let stub = Arc::new(Stub(Mutex::new(Vec::new())));
    let heap = Heap::new(stub.clone());
    let give = Arc::new(Mutex::new(None));
    let dropped = Arc::new(AtomicUsize::new(0));
    let future = Twice {
        give: give.clone(),
        dropped: dropped.clone(),
        polled: false,
    };
    // SAFETY: this thread owns the heap.
    let task =
        unsafe { Task::new::<_, Result<_, _>>(heap.as_ref(), State::new_word(None, true), future) };
    stub.clone().schedule(task);
    Scene {
        stub,
        heap,
        give,
        dropped,
        handle: JoinHandle::new(task),
    }
}

fn bounded(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(f);
}

#[test]
fn a_wake_during_the_poll_or_after_it_is_not_lost() {
    bounded(|| {
        let Scene {
            stub,
            heap,
            give,
            dropped,
            handle,
        } = scene();
        let (worker, waker) = (stub.clone(), give.clone());
        let runs = thread::spawn(move || worker.run_all(&Counters::default()));
        let wakes = thread::spawn(move || {
            // We bind the waker first, because the lock must be free when the waker is used.
            let taken = lock(&waker).take();
            taken.map(Waker::wake).is_some()
        });
        runs.join().unwrap();
        let woken = wakes.join().unwrap();
        stub.run_all(&Counters::default());
        if woken {
            assert!(handle.is_finished(), "the wake was lost");
        } else {
            let taken = lock(&give).take();
            taken.unwrap().wake_by_ref();
            stub.run_all(&Counters::default());
        }
        assert_eq!(*loom::future::block_on(handle).unwrap(), 7);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // SAFETY: all threads have ended, so none uses the heap any more.
        unsafe { Heap::orphan(heap) };
    });
}

#[test]
fn the_joiner_is_woken_or_sees_the_output() {
    bounded(|| {
        let Scene {
            stub,
            heap,
            give,
            dropped,
            handle,
        } = scene();
        let worker = stub.clone();
        let runs = thread::spawn(move || {
            worker.run_all(&Counters::default());
            let taken = lock(&give).take();
            taken.unwrap().wake();
            worker.run_all(&Counters::default());
        });
        assert_eq!(*loom::future::block_on(handle).unwrap(), 7);
        runs.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // SAFETY: all threads have ended, so none uses the heap any more.
        unsafe { Heap::orphan(heap) };
    });
}

#[test]
fn cancel_poll_and_wake_drop_the_future_once() {
    bounded(|| {
        let Scene {
            stub,
            heap,
            give,
            dropped,
            mut handle,
        } = scene();
        let worker = stub.clone();
        let runs = thread::spawn(move || {
            worker.run_all(&Counters::default());
            let taken = lock(&give).take();
            taken.map(Waker::wake);
            worker.run_all(&Counters::default());
        });
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_pending() {
            drop(handle.abort_on_drop());
        }
        runs.join().unwrap();
        stub.run_all(&Counters::default());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // SAFETY: all threads have ended, so none uses the heap any more.
        unsafe { Heap::orphan(heap) };
    });
}

#[test]
fn a_task_whose_last_waker_goes_is_dropped() {
    bounded(|| {
        let Scene {
            stub,
            heap,
            give,
            dropped,
            handle,
        } = scene();
        stub.run_all(&Counters::default());
        let taken = lock(&give).take();
        let forgets = thread::spawn(move || drop(taken));
        handle.detach();
        forgets.join().unwrap();
        stub.run_all(&Counters::default());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // SAFETY: all threads have ended, so none uses the heap any more.
        unsafe { Heap::orphan(heap) };
    });
}

#[test]
fn a_cancelled_handle_reports_the_cancel() {
    bounded(|| {
        let Scene {
            stub,
            heap,
            give,
            handle,
            ..
        } = scene();
        let worker = stub.clone();
        let runs = thread::spawn(move || worker.run_all(&Counters::default()));
        handle.abort();
        runs.join().unwrap();
        stub.run_all(&Counters::default());
        drop(lock(&give).take());
        let joined = loom::future::block_on(handle);
        assert!(matches!(joined, Err(JoinError::Cancelled)));
        // SAFETY: all threads have ended, so none uses the heap any more.
        unsafe { Heap::orphan(heap) };
    });
}

/// Returns memory of cells without tasks in them, which is enough for the queues.
fn blocks(count: usize) -> Vec<Box<Block>> {
    let block = || Block {
        state: State::new(State::new_word(None, true)),
        next: AtomicPtr::new(std::ptr::null_mut()),
    };
    (0..count).map(|_| Box::new(block())).collect()
}

#[test]
fn owner_and_thief_claim_each_task_once() {
    bounded(|| {
        let blocks = Arc::new(blocks(3));
        let task = |index: usize| Task::from_block(NonNull::from(&*blocks[index]));
        let hints = Arc::new(RunQueue::new());
        // SAFETY: this thread is the owner.
        unsafe { hints.push(task(0)) };
        // SAFETY: only this thread pushes to `hints` and pops from it.
        unsafe { hints.push(task(1)) };
        let theirs = hints.clone();
        let thief = thread::spawn(move || {
            let own = RunQueue::new();
            // SAFETY: this thread is the owner of `own`.
            let mut had = usize::from(unsafe { theirs.steal(&own, 1) }.is_some());
            // SAFETY: only this thread pushes to `own` and pops from it.
            while let Some(task) = unsafe { own.pop() } {
                had += usize::from(task.state().claim_hinted().is_some());
            }
            had
        });
        // SAFETY: only this thread pushes to `hints` and pops from it.
        unsafe { hints.push(task(2)) };
        let mut mine = 0;
        // SAFETY: only this thread pushes to `hints` and pops from it.
        while let Some(task) = unsafe { hints.pop() } {
            mine += usize::from(task.state().claim_hinted().is_some());
        }
        assert_eq!(mine + thief.join().unwrap(), 3);
        drop(blocks);
    });
}

#[test]
fn the_lifo_slot_gives_each_task_to_its_holder_or_to_the_thief() {
    bounded(|| {
        let blocks = Arc::new(blocks(2));
        let task = |index: usize| Task::from_block(NonNull::from(&*blocks[index]));
        let slot = Arc::new(Lifo::new());
        let theirs = slot.clone();
        // SAFETY: this thread is the holder, the slot is empty, and no other thread has the task.
        unsafe { slot.put(task(0)) };
        let thief = thread::spawn(move || (0..2).find_map(|_| theirs.steal()));
        let mut had = Vec::new();
        for index in [1, 2] {
            // SAFETY: this thread is the holder of the LIFO slot.
            had.extend(unsafe { slot.take() });
            if index == 1 {
                // SAFETY: this thread is the holder. The slot has just been emptied by this thread
                // or by the thief, and no other thread has the task.
                unsafe { slot.put(task(1)) };
            }
        }
        had.extend(thief.join().unwrap());
        assert_eq!(had.len(), 2, "each task goes to one of them");
        assert!(had.contains(&task(0)) && had.contains(&task(1)));
        drop(blocks);
    });
}

/// The watchdog may send a second thief while the first thief is still at the slot.
#[test]
fn the_lifo_slot_gives_a_task_to_its_holder_or_to_one_of_several_thieves() {
    bounded(|| {
        let blocks = Arc::new(blocks(2));
        let task = |index: usize| Task::from_block(NonNull::from(&*blocks[index]));
        let slot = Arc::new(Lifo::new());
        // SAFETY: this thread is the holder, the slot is empty, and no other thread has the task.
        unsafe { slot.put(task(0)) };
        let thief = || {
            let theirs = slot.clone();
            thread::spawn(move || theirs.steal())
        };
        let thieves = [thief(), thief()];
        // SAFETY: this thread is the holder of the LIFO slot.
        let mut had = Vec::from_iter(unsafe { slot.take() });
        // SAFETY: this thread is the holder. The slot has just been emptied by this thread or by a
        // thief, and no other thread has the task.
        unsafe { slot.put(task(1)) };
        had.extend(
            thieves
                .map(|thief| thief.join().unwrap())
                .into_iter()
                .flatten(),
        );
        // SAFETY: this thread is the holder of the LIFO slot.
        had.extend(unsafe { slot.take() });
        assert_eq!(had.len(), 2, "each task goes to one of them");
        assert!(had.contains(&task(0)) && had.contains(&task(1)));
        drop(blocks);
    });
}

#[test]
fn a_heap_whose_owner_leaves_is_freed_once_with_its_last_block() {
    bounded(|| {
        let stub = Arc::new(Stub(Mutex::new(Vec::new())));
        let heap = Heap::new(stub.clone());
        // SAFETY: this thread owns the heap.
        let (one, two) = unsafe { (heap.as_ref().alloc(64), heap.as_ref().alloc(64)) };
        let give = |block: NonNull<Block>| {
            let block = AtomicPtr::new(block.as_ptr());
            thread::spawn(move || {
                let block = NonNull::new(block.load(Ordering::Relaxed)).unwrap();
                // SAFETY: the block was allocated above, and is freed once and not by the owner.
                unsafe { Heap::free(block, None) };
            })
        };
        let threads = [give(one), give(two)];
        // SAFETY: the owner does not use the heap again.
        unsafe { Heap::orphan(heap) };
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(Arc::strong_count(&stub), 1, "the heap was freed");
    });
}
