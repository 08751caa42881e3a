//! Idle workers, notifications and the watchdog: how the pool keeps its liveness guarantee.
//!
//! The guarantee (docs/design/pool.md) is that ready work never waits while a worker of the same
//! pool is idle. Two mechanisms keep it. Neither of them knows what the work is, because
//! `pool/watchdog.rs` and the sources of work know that.
//!
//! # Notifications
//!
//! After publishing work that any worker may take, a thread removes one worker from the idle list,
//! if there is one, and unparks it. We call this *notifying* a worker.
//!
//! There is at most one search at a time. While a notified worker has not arrived, other publishers
//! notify no worker, because the notified worker will find their work as well. When it arrives, it
//! ends the search before it runs any user code, and notifies the next idle worker if there is
//! still work. A burst therefore wakes workers one after another, and only as many as it needs.
//!
//! The search is a value, [`Search`], which is moved and never copied. Only the thread that owns it
//! can end it. A publisher begins a search and passes it to the notification. The search stays in
//! the notification until a thread takes it under the lock. Normally this thread is the notified
//! worker as it arrives. If that worker does not arrive, another thread takes the search back with
//! [`Idle::give_up`]. A thread can therefore never end a search that another thread has already
//! taken, or has begun since.
//!
//! A worker that becomes idle adds itself to the list first and checks for work afterwards. A
//! publisher does it the other way round, since it publishes first and reads the list afterwards.
//! All four accesses are `SeqCst`, so at least one of the two sees the other's write. This is why
//! no wake-up is lost. There is one exception, because pushing a fork or a job of a scope is not a
//! `SeqCst` operation. A thread that ends a search can miss such work. The watchdog then finds it
//! after about a millisecond.
//!
//! # The watchdog
//!
//! Some work can be reached by one worker only, for example tasks in its local queue, its timers,
//! or the sockets that it polls. If that worker is stuck in user code, its work is stranded. A
//! notified worker can also be slow to arrive, for example because the OS has not scheduled its
//! thread.
//!
//! Therefore, while at least one worker is running and at least one is idle, one of the idle
//! workers is the *watchdog*. It wakes up every millisecond and takes over work that has been
//! stranded since its last check. A watchdog that leaves to run work appoints a successor. If there
//! is no watchdog, the next worker that goes to sleep becomes the watchdog. One lock protects these
//! decisions, so workers never disagree about whether there is a watchdog.
//!
//! | state | meaning | in the idle list? |
//! |---|---|---|
//! | `Idle` | its thread sleeps, spins, takes part in a loop while no work can be stranded at it, or has not started | yes, unless leased or removed |
//! | `Notified` | it was unparked to search for work and has not arrived yet | no |
//! | `Works` | its thread runs user code, or may be doing so | no |
//!
//! A worker can be *leased* to a caller of `block_on`, which then runs tasks in its place. Until
//! the caller returns the lease, the worker's own thread runs none of the tasks that any worker may
//! run. If the caller is stuck for a millisecond, its lease is revoked.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crossbeam_utils::CachePadded;

/// The value of `Idle::watchdog` if there is no watchdog.
const NOBODY: usize = usize::MAX;

/// The state of a worker's thread. The table in the module's documentation explains each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Idle,
    Notified,
    Works,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    at: At,
    /// The number of the current lease, or 0 if the worker is not leased.
    lease: u64,
}

/// The right of a `block_on` caller to run tasks in place of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) slot: usize,
    number: u64,
}

/// The pool's only search. Its owner has the right to search for work, and must end the search with
/// [`Idle::end_search`].
#[must_use = "others can search only after it has ended"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Search(());

/// The state of a worker just before it stopped being idle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The search, if the worker had been notified.
    pub(crate) search: Option<Search>,
    /// Whether the worker was the watchdog, or was the watchdog until it was notified.
    pub(crate) was_watchdog: bool,
}

/// A notification that has been sent to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) slot: usize,
    number: u64,
}

/// A notification whose worker has not arrived yet.
struct Open {
    notified: Notification,
    search: Search,
    /// Whether the worker was the watchdog when it was notified.
    was_watchdog: bool,
}

/// Stores a value if it is not there already. Only one thread at a time writes the flag.
fn set_flag(flag: &AtomicBool, value: bool) {
    if flag.load(Ordering::Relaxed) != value {
        flag.store(value, Ordering::Relaxed);
    }
}

/// Values that mirror those under the lock. They rarely change, and all threads read them all the
/// time, so they are on a cache line of their own.
struct Hints {
    /// Whether the list has a worker, and whether it has one other than worker 0. A stale value is
    /// harmless, because the watchdog also finds work for which nobody was notified.
    any_listed: [AtomicBool; 2],
    /// Whether there is no watchdog although one is needed. One is needed if at least one worker is
    /// running and at least one is idle. A thread that is about to sleep reads it as a hint.
    ///
    /// A stale value of this field and of the next one is harmless for two reasons. First,
    /// `try_become_watchdog` and `appoint` decide under the lock. Second, a thread whose own change
    /// makes a watchdog necessary reads these fields after that change.
    lacks_watchdog: AtomicBool,
    /// Whether a watchdog is needed as above, and no worker has been asked to become it yet. It is
    /// a hint, which every push of a task reads with relaxed ordering.
    unrequested: AtomicBool,
    /// The watchdog's worker, or `NOBODY`. It is a hint for all threads except the watchdog itself.
    /// The watchdog reads the right value because it is notified after this store, or makes the
    /// change itself.
    watchdog: AtomicUsize,
    /// The number of workers in `State::places`. It never becomes smaller. Every thief of a task
    /// reads it, which must not take the lock.
    slots: AtomicUsize,
}

/// The idle workers of a pool.
pub(crate) struct Idle {
    /// The state is on a cache line of its own, because threads read the fields below while others
    /// wait for the lock.
    state: CachePadded<Mutex<State>>,
    /// The number of workers in the list, which mirrors the value under the lock. The module's
    /// documentation explains why it is `SeqCst`. `notify_one` and `lease` check the list again
    /// under the lock.
    listed: AtomicUsize,
    /// Whether there is a [`Search`]. It is `SeqCst` for this reason: a publisher that finds it set
    /// has published its work before. The thread that clears it checks for work afterwards, and
    /// therefore finds that work. This holds for work that is published by a `SeqCst` operation. A
    /// fork, or a job in the lane of a scope, is only followed by the light barrier. The thread
    /// that clears this may miss it, and then the watchdog finds it about a millisecond later.
    searching: AtomicBool,
    /// The number of leases that have been revoked. A `block_on` driver reads it with relaxed
    /// ordering at every step.
    revocations: AtomicU64,
    hints: CachePadded<Hints>,
}

struct State {
    /// The state of each worker, by index.
    places: Vec<Place>,
    /// The workers that may be notified. The last one is notified first.
    list: Vec<usize>,
    /// The number of workers in use, which are those with a lower index.
    slots: usize,
    /// The number of workers that are not idle, plus the number of outside threads that run code of
    /// the pool, for example callers of `block_on`.
    working: usize,
    /// The number of workers in use that are idle, including leased ones.
    idle: usize,
    watchdog: Option<usize>,
    leases: u64,
    notifications: u64,
    /// The notification of the one worker in the state `Notified`.
    open: Option<Open>,
    /// Whether all candidates for the watchdog have been asked, which means notified, since the
    /// pool began to lack one. The first of them that goes to sleep becomes the watchdog, and so
    /// does a worker that becomes idle later and goes to sleep. Therefore no thread has to ask
    /// again, until there is a candidate that may sleep without having been asked. Such candidates
    /// are new workers, and workers whose notification was given up.
    asked: bool,
    /// Whether the OS has refused a thread for the watchdog. The next change of a worker's state
    /// resets it.
    refused: bool,
}

impl Idle {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            state: CachePadded::new(Mutex::new(State {
                places: vec![State::FRESH; slots],
                list: (0..slots).rev().collect(),
                slots,
                working: 0,
                idle: slots,
                watchdog: None,
                leases: 0,
                notifications: 0,
                open: None,
                asked: false,
                refused: false,
            })),
            listed: AtomicUsize::new(slots),
            searching: AtomicBool::new(false),
            revocations: AtomicU64::new(0),
            hints: CachePadded::new(Hints {
                any_listed: [AtomicBool::new(slots > 0), AtomicBool::new(slots > 1)],
                lacks_watchdog: AtomicBool::new(false),
                unrequested: AtomicBool::new(false),
                watchdog: AtomicUsize::new(NOBODY),
                slots: AtomicUsize::new(slots),
            }),
        }
    }

    /// Changes the state under the lock, and updates the mirrors.
    #[cfg_attr(creel_sim, track_caller)]
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        // Other threads read these values all the time. Except for `listed`, which orders the
        // others, we write only what has changed.
        let lacks_watchdog = state.lacks_watchdog();
        state.asked &= lacks_watchdog;
        let unrequested = lacks_watchdog && !state.asked && !state.refused;
        let hints = &self.hints;
        set_flag(&hints.lacks_watchdog, lacks_watchdog);
        set_flag(&hints.unrequested, unrequested);
        let watchdog = state.watchdog.unwrap_or(NOBODY);
        if hints.watchdog.load(Ordering::Relaxed) != watchdog {
            hints.watchdog.store(watchdog, Ordering::Relaxed);
        }
        let listed = state.list.len();
        let from_1 = listed - usize::from(state.list.contains(&0));
        set_flag(&hints.any_listed[0], listed > 0);
        set_flag(&hints.any_listed[1], from_1 > 0);
        // This store comes after the ones above. A thread that finds the list empty therefore also
        // finds that a watchdog is missing.
        self.listed.store(listed, Ordering::SeqCst);
        result
    }

    /// Returns whether there is a worker that may be notified.
    pub(crate) fn any_listed(&self) -> bool {
        self.listed.load(Ordering::SeqCst) > 0
    }

    /// Returns whether there seems to be a listed worker with an index of at least `first`, which is
    /// 0 or 1.
    pub(crate) fn seems_listed_from(&self, first: usize) -> &AtomicBool {
        &self.hints.any_listed[first]
    }

    /// Returns whether there seems to be a watchdog.
    pub(crate) fn has_watchdog(&self) -> bool {
        self.hints.watchdog.load(Ordering::Relaxed) != NOBODY
    }

    /// Returns whether the pool needs a watchdog, and no worker has been asked to become it.
    #[inline]
    pub(crate) fn needs_watchdog(&self) -> bool {
        self.hints.unrequested.load(Ordering::Relaxed)
    }

    /// Returns whether this worker is the watchdog.
    #[inline]
    pub(crate) fn is_watchdog(&self, slot: usize) -> bool {
        self.hints.watchdog.load(Ordering::Relaxed) == slot
    }

    /// Begins the pool's only search. Returns `None` if another search is under way.
    pub(crate) fn begin_search(&self) -> Option<Search> {
        let begun =
            !self.searching.load(Ordering::SeqCst) && !self.searching.swap(true, Ordering::SeqCst);
        begun.then_some(Search(()))
    }

    pub(crate) fn is_searching(&self) -> bool {
        self.searching.load(Ordering::SeqCst)
    }

    pub(crate) fn end_search(&self, _: Search) {
        // We end the search with an exchange, like the one that begins it. The reason is loom,
        // which does not know that an exchange directly follows the value that it has read in the
        // modification order.
        self.searching.swap(false, Ordering::SeqCst);
    }

    /// Marks a worker as notified, and passes it the search. The caller must then unpark the
    /// worker. Workers below the index `first` and the worker `own` are skipped. The watchdog is
    /// chosen only if there is no other worker.
    ///
    /// # Errors
    ///
    /// Returns the search if there is no such worker.
    pub(crate) fn notify_one(
        &self,
        first: usize,
        own: Option<usize>,
        search: Search,
    ) -> Result<Notification, Search> {
        self.change(|state| {
            let watchdog = state.watchdog;
            let fits = |slot: &usize| *slot >= first && Some(*slot) != own;
            let others = |slot: &usize| fits(slot) && Some(*slot) != watchdog;
            let at = state.list.iter().rposition(others);
            let at = at.or_else(|| state.list.iter().rposition(fits));
            let Some(at) = at else { return Err(search) };
            let slot = state.list.remove(at);
            state.set(slot, At::Notified);
            state.notifications += 1;
            let number = state.notifications;
            let notified = Notification { slot, number };
            let was_watchdog = watchdog == Some(slot);
            debug_assert!(state.open.is_none(), "there is one search");
            state.open = Some(Open {
                notified,
                search,
                was_watchdog,
            });
            Ok(notified)
        })
    }

    /// Marks the worker as running. Its own thread calls this when it begins to work.
    pub(crate) fn leave(&self, slot: usize) -> Left {
        self.change(|state| {
            let was_watchdog = state.watchdog == Some(slot);
            let left = match state.open.take_if(|open| open.notified.slot == slot) {
                Some(open) => Left {
                    search: Some(open.search),
                    was_watchdog: open.was_watchdog,
                },
                None => Left {
                    search: None,
                    was_watchdog,
                },
            };
            state.unlist(slot);
            state.set(slot, At::Works);
            left
        })
    }

    /// Marks the worker as idle. Its own thread calls this when it has nothing to do. It must check
    /// for work once more before it sleeps.
    pub(crate) fn enter(&self, slot: usize) {
        self.change(|state| {
            state.set(slot, At::Idle);
            state.enlist(slot);
        });
    }

    /// Returns the notification whose worker has not arrived yet.
    pub(crate) fn notified(&self) -> Option<Notification> {
        lock(&self.state).open.as_ref().map(|open| open.notified)
    }

    /// Takes back the search from a notified worker that has no thread or does not arrive. The
    /// worker becomes idle again, and will be the last one to be notified. Returns `None` if the
    /// worker has arrived, or if another thread has already given up this notification.
    pub(crate) fn give_up(&self, notified: Notification) -> Option<Search> {
        self.change(|state| {
            let open = state.open.take_if(|open| open.notified == notified)?;
            state.set(notified.slot, At::Idle);
            // The worker may have no thread. It is then a candidate for the watchdog that was not
            // asked.
            state.asked = false;
            if state.may_be_listed(notified.slot) {
                state.list.insert(0, notified.slot);
            }
            Some(open.search)
        })
    }

    /// Returns the highest number of workers that the pool has had so far.
    pub(crate) fn slots(&self) -> usize {
        self.hints.slots.load(Ordering::SeqCst)
    }

    /// Returns whether the worker's own thread may run the tasks that any worker may run.
    pub(crate) fn may_run_tasks(&self, slot: usize) -> bool {
        let state = lock(&self.state);
        slot < state.slots && state.places[slot].lease == 0
    }

    /// Calls `f` while the worker is running, and returns its result. The worker cannot become idle
    /// before `f` returns, because `f` runs under the lock. Returns false without calling `f` if
    /// the worker is not running.
    pub(crate) fn while_works(&self, slot: usize, f: impl FnOnce() -> bool) -> bool {
        let state = lock(&self.state);
        state.places[slot].at == At::Works && f()
    }

    /// Counts a thread that is not a worker as running, because it runs code of this pool and may
    /// wait for the pool's workers.
    pub(crate) fn begin_outside(&self) {
        self.change(|state| state.working += 1);
    }

    /// Ends what [`begin_outside`](Self::begin_outside) began.
    pub(crate) fn end_outside(&self) {
        self.change(|state| state.working -= 1);
    }

    /// Leases the next worker of the list to the caller. Returns `None` if the list is empty.
    pub(crate) fn lease(&self) -> Option<Lease> {
        if !self.any_listed() {
            return None;
        }
        self.change(|state| {
            let slot = state.list.pop()?;
            state.leases += 1;
            state.places[slot].lease = state.leases;
            state.working += 1;
            let number = state.leases;
            Some(Lease { slot, number })
        })
    }

    /// Returns whether the lease has been neither returned nor revoked.
    pub(crate) fn is_leased(&self, lease: Lease) -> bool {
        lock(&self.state).places[lease.slot].lease == lease.number
    }

    /// Returns the lease of a `block_on` caller that is done. If the lease has not been revoked,
    /// the worker goes back to the list.
    pub(crate) fn return_lease(&self, lease: Lease) {
        self.change(|state| {
            state.working -= 1;
            let place = &mut state.places[lease.slot];
            if place.lease == lease.number {
                place.lease = 0;
                state.enlist(lease.slot);
            }
        });
    }

    /// Takes the right to run tasks back from a `block_on` caller that is stuck. The worker's own
    /// thread calls this. If the caller has just returned its lease, only the count of revocations
    /// changes.
    pub(crate) fn revoke(&self, slot: usize) {
        self.change(|state| {
            if std::mem::take(&mut state.places[slot].lease) != 0 {
                state.enlist(slot);
            }
        });
        self.revocations.fetch_add(1, Ordering::Release);
    }

    /// Returns how many times [`revoke`](Self::revoke) has been called.
    #[inline]
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Relaxed)
    }

    /// Appoints a watchdog if one is missing, unless all candidates have been notified already or
    /// the OS has refused a thread for it. It chooses an idle worker for which `sleeps` returns
    /// true, which means that its thread sleeps or that it has no thread. It prefers a worker in
    /// the list. The caller must unpark that worker. If all idle workers are spinning, the caller
    /// must notify all of them, and the first that goes to sleep becomes the watchdog.
    pub(crate) fn appoint(&self, sleeps: impl Fn(usize) -> bool) -> Appointed {
        self.change(|state| {
            if !state.lacks_watchdog() || state.asked || state.refused {
                return Appointed::Nobody;
            }
            let idle = |slot: &usize| state.places[*slot].at == At::Idle;
            // A listed worker is the better watchdog, because it can take tasks at once. A leased
            // worker cannot.
            let listed = state.list.iter().copied().find(|slot| sleeps(*slot));
            let leased = || (0..state.slots).filter(idle).find(|slot| sleeps(*slot));
            if let Some(slot) = listed.or_else(leased) {
                state.watchdog = Some(slot);
                return Appointed::WorkerSlot(slot);
            }
            state.asked = true;
            Appointed::Spinners
        })
    }

    /// Undoes the appointment of a worker that does not sleep any more, or that has no thread
    /// because the OS refused one (`refused`).
    pub(crate) fn unappoint(&self, slot: usize, refused: bool) {
        self.change(|state| {
            state.end_watchdog(slot);
            state.refused |= refused;
        });
    }

    /// Returns whether this worker is the watchdog, and makes it the watchdog if one is missing. An
    /// idle worker calls this before it sleeps. A worker that the pool has removed never becomes
    /// the watchdog, because its thread is about to end.
    pub(crate) fn try_become_watchdog(&self, slot: usize) -> bool {
        if !self.is_watchdog(slot) && !self.hints.lacks_watchdog.load(Ordering::Relaxed) {
            return false;
        }
        self.change(|state| {
            let idle = slot < state.slots && state.places[slot].at == At::Idle;
            if idle && state.lacks_watchdog() {
                state.watchdog = Some(slot);
            }
            state.watchdog == Some(slot)
        })
    }

    /// Lets the watchdog resign if no worker is running. The watchdog calls this when a check has
    /// found nothing. Returns whether the worker is no longer the watchdog.
    pub(crate) fn resign(&self, slot: usize) -> bool {
        self.change(|state| {
            if state.working == 0 {
                state.end_watchdog(slot);
            }
            state.watchdog != Some(slot)
        })
    }

    /// Makes the first `slots` workers known. They are idle, and not in use yet.
    pub(crate) fn reserve(&self, slots: usize) {
        let mut state = lock(&self.state);
        if state.places.len() < slots {
            state.places.resize(slots, State::FRESH);
            self.hints.slots.store(slots, Ordering::SeqCst);
        }
    }

    /// Changes the number of workers in use. All of them must be known.
    pub(crate) fn resize(&self, slots: usize) {
        self.change(|state| {
            state.slots = slots;
            let places = &state.places;
            let idle = |slot: &usize| places[*slot].at == At::Idle;
            state.idle = (0..slots).filter(idle).count();
            let callable = |slot: &usize| idle(slot) && places[*slot].lease == 0;
            state.list = (0..slots).rev().filter(callable).collect();
            if state.watchdog.is_some_and(|watchdog| watchdog >= slots) {
                state.watchdog = None;
            }
            // New workers are candidates for the watchdog that were not asked.
            state.asked = false;
        });
    }
}

/// The workers that the caller of [`Idle::appoint`] must notify.
pub(crate) enum Appointed {
    /// No worker, because there is a watchdog already, none is needed, the spinning workers have
    /// been notified already, or the OS has refused a thread for it.
    Nobody,
    /// The worker that has just become the watchdog, by its index.
    WorkerSlot(usize),
    /// All workers that are idle without sleeping.
    Spinners,
}

impl State {
    const FRESH: Place = Place {
        at: At::Idle,
        lease: 0,
    };

    fn lacks_watchdog(&self) -> bool {
        self.watchdog.is_none() && self.working > 0 && self.idle > 0
    }

    /// Changes the state of a worker. If the worker is not idle afterwards, it is no longer the
    /// watchdog.
    fn set(&mut self, slot: usize, at: At) {
        let before = std::mem::replace(&mut self.places[slot].at, at);
        let idles = |at| usize::from(at == At::Idle);
        self.working = self.working + idles(before) - idles(at);
        if slot < self.slots {
            self.idle = self.idle + idles(at) - idles(before);
        }
        if at != At::Idle {
            self.end_watchdog(slot);
        }
        self.refused = false;
    }

    fn may_be_listed(&self, slot: usize) -> bool {
        let Place { at, lease } = self.places[slot];
        slot < self.slots && at == At::Idle && lease == 0
    }

    fn enlist(&mut self, slot: usize) {
        if self.may_be_listed(slot) {
            self.list.push(slot);
        }
    }

    fn unlist(&mut self, slot: usize) {
        if let Some(at) = self.list.iter().rposition(|listed| *listed == slot) {
            self.list.remove(at);
        }
    }

    fn end_watchdog(&mut self, slot: usize) {
        if self.watchdog == Some(slot) {
            self.watchdog = None;
            self.asked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a search and notifies a worker. Ends the search if no worker can be notified.
    fn notify_one(idle: &Idle, first: usize) -> Option<usize> {
        match idle.notify_one(first, None, idle.begin_search().expect("nobody searches")) {
            Ok(notified) => Some(notified.slot),
            Err(search) => {
                idle.end_search(search);
                None
            }
        }
    }

    /// Lets the notified worker arrive, and ends the search.
    fn arrive(idle: &Idle, slot: usize) -> Left {
        let mut left = idle.leave(slot);
        idle.end_search(left.search.take().expect("it was notified"));
        left
    }

    #[test]
    fn the_watchdog_is_notified_last_and_appoints_no_successor_by_itself() {
        let idle = Idle::new(3);
        assert!(!idle.needs_watchdog(), "nobody works");
        idle.leave(0);
        assert!(idle.needs_watchdog());
        assert!(matches!(
            idle.appoint(|slot| slot == 1),
            Appointed::WorkerSlot(1)
        ));
        assert_eq!(notify_one(&idle, 0), Some(2));
        assert!(!arrive(&idle, 2).was_watchdog);
        assert_eq!(notify_one(&idle, 0), Some(1), "there is no other");
        assert!(
            !idle.is_watchdog(1) && !idle.needs_watchdog(),
            "nobody idles"
        );
        assert!(arrive(&idle, 1).was_watchdog, "it has to name the next");
        idle.enter(1);
        assert!(idle.needs_watchdog());
        assert!(
            idle.try_become_watchdog(1),
            "a worker that goes to sleep becomes the watchdog"
        );
        assert!(!idle.resign(1), "somebody works");
        [0, 2].iter().for_each(|slot| idle.enter(*slot));
        assert!(idle.resign(1));
    }

    #[test]
    fn a_worker_that_was_not_asked_to_be_the_watchdog_is_asked_later() {
        let idle = Idle::new(4);
        idle.resize(3);
        idle.leave(0);
        assert!(matches!(idle.appoint(|_| false), Appointed::Spinners));
        assert!(!idle.needs_watchdog(), "all were asked");
        idle.leave(1);
        assert!(!idle.needs_watchdog(), "worker 2 was asked");
        idle.resize(4);
        assert!(idle.needs_watchdog(), "worker 3 was not asked");

        assert!(matches!(idle.appoint(|_| false), Appointed::Spinners));
        assert_eq!(notify_one(&idle, 3), Some(3));
        let notified = idle.notified().expect("it has not arrived");
        let search = idle.give_up(notified).expect("it has not arrived");
        idle.end_search(search);
        assert!(idle.needs_watchdog(), "worker 3 may have no thread");
    }

    #[test]
    fn a_leased_worker_is_not_notified_and_its_lease_may_be_revoked() {
        let idle = Idle::new(1);
        let lease = idle.lease().unwrap();
        assert!(!idle.any_listed() && !idle.may_run_tasks(0));
        assert!(matches!(idle.appoint(|_| true), Appointed::WorkerSlot(0)));
        idle.revoke(0);
        assert!(idle.may_run_tasks(0) && !idle.is_leased(lease));
        idle.return_lease(lease);
        assert_eq!(notify_one(&idle, 0), Some(0));
    }

    #[test]
    fn a_worker_whose_lease_is_returned_before_it_is_revoked_is_listed_once() {
        let idle = Idle::new(1);
        let lease = idle.lease().unwrap();
        idle.return_lease(lease);
        idle.revoke(0);
        assert_eq!(notify_one(&idle, 0), Some(0));
        assert!(!idle.any_listed());
    }

    #[test]
    fn only_a_notification_that_has_not_arrived_can_be_cancelled() {
        let idle = Idle::new(2);
        let first = idle
            .notify_one(1, None, idle.begin_search().unwrap())
            .unwrap();
        assert_eq!(idle.notified(), Some(first));
        let search = idle.leave(1).search.expect("it was notified");
        assert_eq!(idle.notified(), None, "it has arrived");
        assert_eq!(idle.give_up(first), None);
        assert!(idle.begin_search().is_none(), "it searches");
        idle.end_search(search);

        idle.enter(1);
        let second = idle
            .notify_one(1, None, idle.begin_search().unwrap())
            .unwrap();
        assert_eq!(idle.give_up(first), None, "the same slot, another call");
        let search = idle.give_up(second).expect("it has not arrived");
        assert_eq!(idle.give_up(second), None);
        assert_eq!(idle.leave(1).search, None, "others may search by now");
        idle.end_search(search);
    }

    #[test]
    fn only_workers_in_use_are_notified_after_a_resize() {
        let idle = Idle::new(4);
        idle.leave(3);
        idle.resize(2);
        assert_eq!(
            [(); 3].map(|()| {
                let slot = notify_one(&idle, 0)?;
                arrive(&idle, slot);
                Some(slot)
            }),
            [Some(0), Some(1), None]
        );
        idle.enter(3);
        assert_eq!(notify_one(&idle, 0), None, "out of use");
        idle.enter(0);
        assert!(idle.needs_watchdog(), "worker 1 is running");
        assert!(!idle.try_become_watchdog(3), "its thread ends soon");
        assert_eq!(notify_one(&idle, 0), Some(0));
        let search = idle.give_up(idle.notified().unwrap()).unwrap();
        idle.end_search(search);
        assert_eq!(notify_one(&idle, 0), Some(0));
        arrive(&idle, 0);
        idle.resize(4);
        assert_eq!(notify_one(&idle, 3), Some(3));
    }
}
