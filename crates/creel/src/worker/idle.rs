//! Who is idle, who has been called, who watches: the mechanism of the law of liveness.
//!
//! The law (docs/design/pool.md): *what is ready is never left while a worker of its pool is
//! idle*. Two rules keep it. Neither knows what the work is; `pool/watchdog.rs` and the sources of
//! work do.
//!
//! # The call
//!
//! Who publishes work that any worker may take, and then finds a worker in the list of the idle,
//! *calls* one: takes it out of the list and notifies it. There is one search at a time: while a
//! called worker has not arrived, others that publish call nobody. A called worker that arrives
//! ends the search before it runs anybody's code, and calls the next if there is still work.
//!
//! The search is a value, [`Search`], which is moved and never copied, so only the thread that has
//! it can end it. The thread that begins it gives it to the call. There it stays until, under the
//! lock, the called worker takes it as it arrives, or another thread takes it back because the
//! worker does not arrive ([`Idle::give_up`]). So nobody can end a search that another thread has
//! taken or begun meanwhile.
//!
//! A worker that becomes idle goes into the list first and then looks for work (`SeqCst` both, as
//! for the publisher, so that one of the two sees the other).
//!
//! # The watchdog
//!
//! Work can lie where only a worker gets at it that happens to run something else: in its queue,
//! on its timer wheel, in the poller that it has left; and a called worker may not arrive. While
//! somebody works and somebody is idle, one of the idle is the *watch*: it sleeps for a
//! millisecond at most, and takes what has lain since its last look. Who ceases to be the watchdog
//! names the next; who goes to sleep while there is none is it. All this is decided under one
//! lock, so "nobody watches" is never believed by two in two ways.
//!
//! | a worker is | it means | it is in the list |
//! |---|---|---|
//! | `Idle` | its thread sleeps, spins, takes part in a loop behind which nothing can hide, or has not started | yes, unless it is lent |
//! | `Notification` | it has been told to come | no |
//! | `Works` | its thread runs somebody's code, or may | no |
//!
//! A worker may be *lent*: a caller of `block_on` runs tasks in its stead. Then its thread runs
//! none, until the caller is done or, stuck for a millisecond, is revoked.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// In `watchdog`.
const NOBODY: usize = usize::MAX;

/// Where a worker's thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Idle,
    Notified,
    Works,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    at: At,
    /// The lease that is under way, or 0.
    lease: u64,
}

/// A caller's right to run tasks in a worker's stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) slot: usize,
    number: u64,
}

/// The pool's one search: the right to search, and the duty to end it by [`Idle::end_search`].
#[must_use = "others can search only after it has ended"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Search(());

/// What a worker was that does not idle any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// It was called.
    pub(crate) search: Option<Search>,
    /// It was the watchdog, or was until it was called.
    pub(crate) was_watchdog: bool,
}

/// A call that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) slot: usize,
    number: u64,
}

/// A call whose worker has not arrived.
struct Open {
    notified: Notification,
    search: Search,
    /// The worker was the watchdog.
    was_watchdog: bool,
}

/// The idle workers of a pool.
pub(crate) struct Idle {
    state: Mutex<State>,
    /// How many workers are in the list; the lock's mirror. `SeqCst`, see above. `call` and `lend`
    /// look again under the lock.
    listed: AtomicUsize,
    /// Somebody works, somebody is idle, and nobody watches. Advice: who is about to sleep looks.
    /// Of both, an old value is harmless: `try_become_watchdog` and `appoint` decide under the lock, and a
    /// thread whose own change makes a watchdog wanting looks after it.
    lacks_watchdog: AtomicBool,
    /// ... and nobody has been asked to. Advice: read relaxed at every push.
    unrequested: AtomicBool,
    /// The watchdog's worker, or `NOBODY`; the lock's mirror. Advice, but to the watchdog itself, which is
    /// notified after this has been stored, or finds it by its own change.
    watchdog: AtomicUsize,
    /// There is a [`Search`]. `SeqCst`: a publisher that finds it set has published before, and is
    /// seen by the look of the thread that unsets it.
    searching: AtomicBool,
    /// How many borrowers have been revoked. Read relaxed at every step of a borrower.
    revocations: AtomicU64,
}

struct State {
    /// By worker.
    places: Vec<Place>,
    /// The workers that may be called; the next last.
    list: Vec<usize>,
    /// How many workers are in use: those below this index.
    slots: usize,
    /// How many workers do not idle, and how many callers of `block_on` run tasks.
    working: usize,
    /// How many of the workers in use idle, lent ones too.
    idle: usize,
    watchdog: Option<usize>,
    leases: u64,
    notifications: u64,
    /// The call of the one worker that is `Notification`.
    open: Option<Open>,
    /// Who could watch has been asked to, or refused a thread by the system. Until a worker moves.
    asked: bool,
}

impl Idle {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            state: Mutex::new(State {
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
            }),
            listed: AtomicUsize::new(slots),
            lacks_watchdog: AtomicBool::new(false),
            unrequested: AtomicBool::new(false),
            watchdog: AtomicUsize::new(NOBODY),
            searching: AtomicBool::new(false),
            revocations: AtomicU64::new(0),
        }
    }

    /// Changes the state, and the mirrors with it.
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        let lacks_watchdog = state.lacks_watchdog();
        self.lacks_watchdog.store(lacks_watchdog, Ordering::Relaxed);
        self.unrequested
            .store(lacks_watchdog && !state.asked, Ordering::Relaxed);
        // After these: who finds nobody to call finds that a watchdog is missing.
        self.listed.store(state.list.len(), Ordering::SeqCst);
        self.watchdog
            .store(state.watchdog.unwrap_or(NOBODY), Ordering::Relaxed);
        result
    }

    /// Whether a worker may be called.
    pub(crate) fn any_listed(&self) -> bool {
        self.listed.load(Ordering::SeqCst) > 0
    }

    /// Whether a watchdog is missing, and nobody has been asked to be it.
    #[inline]
    pub(crate) fn needs_watchdog(&self) -> bool {
        self.unrequested.load(Ordering::Relaxed)
    }

    /// Whether this worker is the watchdog.
    #[inline]
    pub(crate) fn is_watchdog(&self, slot: usize) -> bool {
        self.watchdog.load(Ordering::Relaxed) == slot
    }

    /// Begins the one search. None: another is under way.
    pub(crate) fn begin_search(&self) -> Option<Search> {
        let begun =
            !self.searching.load(Ordering::SeqCst) && !self.searching.swap(true, Ordering::SeqCst);
        begun.then_some(Search(()))
    }

    pub(crate) fn is_searching(&self) -> bool {
        self.searching.load(Ordering::SeqCst)
    }

    pub(crate) fn end_search(&self, _: Search) {
        // An exchange like the one that begins it, because loom does not know that an exchange and
        // what it has read lie side by side in the word's order.
        self.searching.swap(false, Ordering::SeqCst);
    }

    /// Calls a worker, the watchdog last of all and none below `first`, and gives it the search. The
    /// caller must notify it.
    ///
    /// # Errors
    ///
    /// Returns the search if there is no such worker.
    pub(crate) fn notify_one(&self, first: usize, search: Search) -> Result<Notification, Search> {
        self.change(|state| {
            let watchdog = state.watchdog;
            let others = |slot: &usize| *slot >= first && Some(*slot) != watchdog;
            let at = state.list.iter().rposition(others);
            let at = at.or_else(|| state.list.iter().rposition(|slot| *slot >= first));
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

    /// The worker's thread begins to work.
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

    /// The worker's thread has nothing to do: it looks once more after this, and sleeps.
    pub(crate) fn enter(&self, slot: usize) {
        self.change(|state| {
            state.set(slot, At::Idle);
            state.enlist(slot);
        });
    }

    /// The call whose worker has not arrived.
    pub(crate) fn notified(&self) -> Option<Notification> {
        lock(&self.state).open.as_ref().map(|open| open.notified)
    }

    /// Takes back the search of a call to a worker that could not be had, or does not come: the worker
    /// goes back to the list's end. None: it has come, or another thread has given the call up.
    pub(crate) fn give_up(&self, notified: Notification) -> Option<Search> {
        self.change(|state| {
            let open = state.open.take_if(|open| open.notified == notified)?;
            state.set(notified.slot, At::Idle);
            if state.may_be_listed(notified.slot) {
                state.list.insert(0, notified.slot);
            }
            Some(open.search)
        })
    }

    /// How many workers there have been.
    pub(crate) fn slots(&self) -> usize {
        lock(&self.state).places.len()
    }

    /// Whether the worker's own thread may run tasks.
    pub(crate) fn may_run_tasks(&self, slot: usize) -> bool {
        let state = lock(&self.state);
        slot < state.slots && state.places[slot].lease == 0
    }

    /// Calls `f` while the worker's thread works, which therefore cannot become idle before `f` has
    /// returned. Returns false without a call if the thread does not work.
    pub(crate) fn while_works(&self, slot: usize, f: impl FnOnce() -> bool) -> bool {
        let state = lock(&self.state);
        state.places[slot].at == At::Works && f()
    }

    /// A thread that is no worker runs code of this pool's, and may wait for workers.
    pub(crate) fn begin_outside(&self) {
        self.change(|state| state.working += 1);
    }

    /// It is done.
    pub(crate) fn end_outside(&self) {
        self.change(|state| state.working -= 1);
    }

    /// Lends the next worker of the list.
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

    /// Whether the borrower of a worker has not been revoked.
    pub(crate) fn is_leased(&self, lease: Lease) -> bool {
        lock(&self.state).places[lease.slot].lease == lease.number
    }

    /// The borrower is done.
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

    /// The worker's thread takes back the right to run tasks from a borrower who is stuck, unless that
    /// one has just given it back.
    pub(crate) fn revoke(&self, slot: usize) {
        self.change(|state| {
            if std::mem::take(&mut state.places[slot].lease) != 0 {
                state.enlist(slot);
            }
        });
        self.revocations.fetch_add(1, Ordering::Release);
    }

    /// How many borrowers have been revoked so far.
    #[inline]
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Relaxed)
    }

    /// Names the watchdog, if one is missing: the first idle worker of which `sleeps` says that its
    /// thread sleeps or has not started. The caller notifies it; or, where all that are idle
    /// spin, all these: the first of them that goes to sleep will be it.
    pub(crate) fn appoint(&self, sleeps: impl Fn(usize) -> bool) -> Appointed {
        self.change(|state| {
            if !state.lacks_watchdog() || state.asked {
                return Appointed::Nobody;
            }
            let idle = |slot: &usize| state.places[*slot].at == At::Idle;
            // One that may be called is the better watch: it can take tasks at once.
            let listed = state.list.iter().copied().find(|slot| sleeps(*slot));
            let lent = || (0..state.slots).filter(idle).find(|slot| sleeps(*slot));
            if let Some(slot) = listed.or_else(lent) {
                state.watchdog = Some(slot);
                return Appointed::WorkerSlot(slot);
            }
            state.asked = true;
            Appointed::Spinners
        })
    }

    /// The worker was named the watchdog, but does not sleep any more, or (`refused`) has no thread.
    pub(crate) fn unappoint(&self, slot: usize, refused: bool) {
        self.change(|state| {
            state.end_watchdog(slot);
            state.asked |= refused;
        });
    }

    /// Called by an idle worker before it sleeps: whether it is the watchdog, which it becomes if one is
    /// missing.
    pub(crate) fn try_become_watchdog(&self, slot: usize) -> bool {
        if !self.is_watchdog(slot) && !self.lacks_watchdog.load(Ordering::Relaxed) {
            return false;
        }
        self.change(|state| {
            if state.lacks_watchdog() && state.places[slot].at == At::Idle {
                state.watchdog = Some(slot);
            }
            state.watchdog == Some(slot)
        })
    }

    /// The watchdog has seen nothing for a while: it ceases to be it, if nobody works.
    pub(crate) fn resign(&self, slot: usize) -> bool {
        self.change(|state| {
            if state.working == 0 {
                state.end_watchdog(slot);
            }
            state.watchdog != Some(slot)
        })
    }

    /// Changes the number of workers in use.
    pub(crate) fn resize(&self, slots: usize) {
        self.change(|state| {
            if state.places.len() < slots {
                state.places.resize(slots, State::FRESH);
            }
            state.slots = slots;
            let places = &state.places;
            let idle = |slot: &usize| places[*slot].at == At::Idle;
            state.idle = (0..slots).filter(idle).count();
            let callable = |slot: &usize| idle(slot) && places[*slot].lease == 0;
            state.list = (0..slots).rev().filter(callable).collect();
            if state.watchdog.is_some_and(|watchdog| watchdog >= slots) {
                state.watchdog = None;
            }
        });
    }
}

/// Who is to be notified after [`Idle::appoint`].
pub(crate) enum Appointed {
    /// There is a watchdog already, or none is needed.
    Nobody,
    /// The watchdog.
    WorkerSlot(usize),
    /// All that idle without sleeping.
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

    /// Moves a worker, and ends its watch if it does not idle any more.
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
        self.asked = false;
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a search for a worker to call, and ends it if there is none.
    fn notify_one(idle: &Idle, first: usize) -> Option<usize> {
        match idle.notify_one(first, idle.begin_search().expect("nobody searches")) {
            Ok(notified) => Some(notified.slot),
            Err(search) => {
                idle.end_search(search);
                None
            }
        }
    }

    /// The called worker arrives, and ends the search.
    fn arrive(idle: &Idle, slot: usize) -> Left {
        let mut left = idle.leave(slot);
        idle.end_search(left.search.take().expect("it was notified"));
        left
    }

    #[test]
    fn the_watch_is_called_last_and_names_no_one_by_itself() {
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
        assert!(idle.try_become_watchdog(1), "who goes to sleep is it");
        assert!(!idle.resign(1), "somebody works");
        [0, 2].iter().for_each(|slot| idle.enter(*slot));
        assert!(idle.resign(1));
    }

    #[test]
    fn a_lent_slot_is_not_called_and_may_be_relieved() {
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
    fn a_slot_that_was_given_back_before_its_borrower_is_relieved_is_listed_once() {
        let idle = Idle::new(1);
        let lease = idle.lease().unwrap();
        idle.return_lease(lease);
        idle.revoke(0);
        assert_eq!(notify_one(&idle, 0), Some(0));
        assert!(!idle.any_listed());
    }

    #[test]
    fn a_call_that_has_arrived_or_is_another_cannot_be_given_up() {
        let idle = Idle::new(2);
        let first = idle.notify_one(1, idle.begin_search().unwrap()).unwrap();
        assert_eq!(idle.notified(), Some(first));
        let search = idle.leave(1).search.expect("it was notified");
        assert_eq!(idle.notified(), None, "it has arrived");
        assert_eq!(idle.give_up(first), None);
        assert!(idle.begin_search().is_none(), "it searches");
        idle.end_search(search);

        idle.enter(1);
        let second = idle.notify_one(1, idle.begin_search().unwrap()).unwrap();
        assert_eq!(idle.give_up(first), None, "the same slot, another call");
        let search = idle.give_up(second).expect("it has not arrived");
        assert_eq!(idle.give_up(second), None);
        assert_eq!(idle.leave(1).search, None, "others may search by now");
        idle.end_search(search);
    }

    #[test]
    fn slots_come_and_go() {
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
        assert_eq!(notify_one(&idle, 0), Some(0));
        let search = idle.give_up(idle.notified().unwrap()).unwrap();
        idle.end_search(search);
        assert_eq!(notify_one(&idle, 0), Some(0));
        arrive(&idle, 0);
        idle.resize(4);
        assert_eq!(notify_one(&idle, 3), Some(3));
    }
}
