//! Models of notifications for loom. They cover publishers, workers that become idle, and a
//! watchdog that takes a notification back, in every interleaving up to a bound on preemptions. Run
//! them with
//! `cargo test --release --manifest-path crates/models/Cargo.toml --features loom --lib worker`.
//!
//! If a notification is lost, a publisher waits forever, and loom reports that.

use super::{
    hooks::Hooks,
    idle::{Idle, Search},
    parker::Poller,
    slot::WorkerSlot,
    slots::{When, Work, WorkerSlots},
};
use crate::sync::{AtomicUsize, Ordering, WaitWord};
use loom::{model::Builder, thread};
use std::sync::{Arc, Weak};

/// A poller that does nothing.
struct NoPoller;

impl Poller for NoPoller {
    fn interrupt(&self) {}
}

/// Pieces of work that any worker can take.
struct Pieces {
    slots: Arc<WorkerSlots>,
    /// The number of pieces that were published and not taken.
    left: AtomicUsize,
    /// The number of pieces taken so far.
    taken: AtomicUsize,
    all: usize,
    /// Whether a worker that has taken a piece returns only when all pieces are taken, as if the
    /// pieces waited for each other.
    meet: bool,
    /// A word on which threads wait. It becomes 1 when all pieces are taken.
    done: WaitWord,
    ended: AtomicUsize,
}

impl Pieces {
    /// Creates the pieces and one thread per worker. The threads are loom's.
    fn begin(workers: usize, all: usize, meet: bool) -> (Arc<Self>, Vec<thread::JoinHandle<()>>) {
        let slots = WorkerSlots::new(
            "model".into(),
            workers,
            false,
            None,
            Hooks::default(),
            Arc::new(NoPoller),
        );
        // We create the workers before the threads start, because loom does not see that a thread
        // that finds a worker created comes after the thread that created it.
        for slot in 0..workers {
            slots.at(slot).thread.mark_running();
            assert!(slots.life.enter());
        }
        let pieces = Arc::new(Self {
            slots,
            left: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            all,
            meet,
            done: WaitWord::new(0),
            ended: AtomicUsize::new(0),
        });
        let work: Weak<dyn Work> = Arc::<Self>::downgrade(&pieces);
        pieces.slots.set_work(work);
        let serve = |slot| {
            let pieces = Arc::clone(&pieces);
            thread::spawn(move || pieces.serve(slot))
        };
        let threads = (0..workers).map(serve).collect();
        (pieces, threads)
    }

    fn publish(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
        self.slots
            .notify_one(0, When::Now)
            .expect("threads can be had");
    }

    fn take(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        let took = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if took.is_ok() && self.taken.fetch_add(1, Ordering::AcqRel) + 1 == self.all {
            self.done.swap(1, Ordering::AcqRel);
            (0..=self.all).for_each(|_| self.done.wake_one());
        }
        took.is_ok()
    }

    /// Waits until all pieces are taken.
    fn wait(&self) {
        while self.done.load(Ordering::Acquire) == 0 {
            self.done.wait(0, None);
        }
    }

    /// Waits until all pieces are taken, and ends the threads.
    fn finish(&self, threads: Vec<thread::JoinHandle<()>>) {
        self.wait();
        self.slots.life.close();
        for slot in self.slots.made() {
            slot.notify();
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        self.slots.leave();
        assert_eq!(self.ended.load(Ordering::Relaxed), 1, "it ends once");
    }
}

impl Work for Pieces {
    fn serve(self: Arc<Self>, index: usize) {
        let (slots, slot) = (&self.slots, self.slots.at(index));
        loop {
            slot.parker.begin_turn();
            if slot.take_notified() {
                // The worker takes one piece, like a task. Other pieces are for the next worker.
                slots.leave_idle_for_long(slot);
            }
            if self.is_ready() {
                slots.leave_idle_for_long(slot);
                if self.take() && self.meet {
                    self.wait();
                }
                continue;
            }
            slots.enter_idle(slot);
            if slots.is_closing() {
                break;
            }
            if !self.is_ready() {
                slot.parker.park(None);
            }
        }
        slots.leave();
    }

    fn abandon(&self) {}

    fn run_late(&self, _slot: &WorkerSlot) -> bool {
        false
    }

    fn is_ready(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    fn any_forks(&self) -> bool {
        false
    }

    fn has_private_work(&self, _: usize) -> bool {
        false
    }

    fn has_share(&self, _: &WorkerSlot) -> bool {
        false
    }

    fn take_share(&self, _: &WorkerSlot) {}

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// One worker becomes idle while the second piece is published.
#[test]
fn work_published_while_a_worker_becomes_idle_is_taken() {
    check(3, || {
        let (pieces, threads) = Pieces::begin(1, 2, false);
        pieces.publish();
        pieces.publish();
        pieces.finish(threads);
    });
}

/// One of two workers is searching for work while the second piece of work is published. It takes
/// the first piece, and then waits for the other worker.
#[test]
fn work_published_during_a_search_is_taken() {
    check(1, || {
        let (pieces, threads) = Pieces::begin(2, 2, true);
        pieces.publish();
        pieces.publish();
        pieces.finish(threads);
    });
}

/// The idle workers, and the number of threads that own a search.
struct Counted {
    idle: Idle,
    searchers: AtomicUsize,
}

impl Counted {
    fn search(&self, search: Search) {
        let others = self.searchers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "two threads search at a time");
        self.searchers.fetch_sub(1, Ordering::SeqCst);
        self.idle.end_search(search);
    }

    /// Searches as a worker does that runs out of tasks and has not been notified.
    fn search_unnotified(&self) {
        if let Some(search) = self.idle.begin_search() {
            self.search(search);
        }
    }

    fn notify(&self) {
        if let Some(search) = self.idle.begin_search()
            && let Err(search) = self.idle.notify_one(0, None, search)
        {
            self.search(search);
        }
    }

    /// Does what the watchdog does with a notification that two of its checks have seen: takes back
    /// the search.
    fn give_up(&self) {
        if let Some(notified) = self.idle.notified()
            && let Some(search) = self.idle.give_up(notified)
        {
            self.search(search);
        }
    }

    /// Lets the worker arrive after a notification, or work for another reason, and become idle
    /// again.
    fn work(&self, slot: usize) {
        if let Some(search) = self.idle.leave(slot).search {
            self.search(search);
        }
        self.search_unnotified();
        self.idle.enter(slot);
    }
}

/// The watchdog gives up a notification while the notified worker arrives, and while the next
/// worker is notified.
#[test]
fn a_notification_that_is_given_up_leaves_one_search() {
    check(3, || {
        let idle = Idle::new(1);
        let searchers = AtomicUsize::new(0);
        let counted = Arc::new(Counted { idle, searchers });
        counted.notify();
        let other = |f: fn(&Counted)| {
            let counted = Arc::clone(&counted);
            thread::spawn(move || f(&counted))
        };
        let threads = [other(|counted| counted.work(0)), other(Counted::give_up)];
        counted.notify();
        for thread in threads {
            thread.join().expect("no panic");
        }
        // The worker may not have arrived after the last notification.
        counted.give_up();
        let search = counted.idle.begin_search().expect("no thread searches");
        assert!(
            counted.idle.notify_one(0, None, search).is_ok(),
            "the slot is listed"
        );
        assert!(!counted.idle.any_listed(), "it is listed once");
    });
}
