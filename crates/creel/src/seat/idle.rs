//! Who is idle, who has been called, who watches: the mechanism of the law of liveness.
//!
//! The law (docs/design/pool.md): *what is ready is never left while a worker of its pool is
//! idle*. Two rules keep it. Neither knows what the work is; `pool/watch.rs` and the sources of
//! work do.
//!
//! # The call
//!
//! Who publishes work that any worker may take, and then finds a seat in the list of the idle,
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
//! # The watch
//!
//! Work can lie where only a worker gets at it that happens to run something else: in its queue,
//! on its timer wheel, in the poller that it has left; and a called worker may not arrive. While
//! somebody works and somebody is idle, one of the idle is the *watch*: it sleeps for a
//! millisecond at most, and takes what has lain since its last look. Who ceases to be the watch
//! names the next; who goes to sleep while there is none is it. All this is decided under one
//! lock, so "nobody watches" is never believed by two in two ways.
//!
//! | a seat is | it means | it is in the list |
//! |---|---|---|
//! | `Idle` | its thread sleeps, spins, takes part in a loop behind which nothing can hide, or has not started | yes, unless it is lent |
//! | `Called` | it has been told to come | no |
//! | `Works` | its thread runs somebody's code, or may | no |
//!
//! A seat may be *lent*: a caller of `block_on` runs tasks in its stead. Then its thread runs
//! none, until the caller is done or, stuck for a millisecond, is relieved.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// In `watch`.
const NOBODY: usize = usize::MAX;

/// Where a seat's thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Idle,
    Called,
    Works,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    at: At,
    /// The loan that is under way, or 0.
    loan: u64,
}

/// A caller's right to run tasks in a seat's stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) seat: usize,
    number: u64,
}

/// The pool's one search: the right to search, and the duty to end it by [`Idle::end_search`].
#[must_use = "others can search only after it has ended"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Search(());

/// What a seat was that does not idle any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// It was called.
    pub(crate) search: Option<Search>,
    /// It was the watch, or was until it was called.
    pub(crate) watched: bool,
}

/// A call that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) seat: usize,
    number: u64,
}

/// A call whose seat has not arrived.
struct Open {
    called: Called,
    search: Search,
    /// The seat was the watch.
    watched: bool,
}

/// The idle seats of a pool.
pub(crate) struct Idle {
    state: Mutex<State>,
    /// How many seats are in the list; the lock's mirror. `SeqCst`, see above. `call` and `lend`
    /// look again under the lock.
    listed: AtomicUsize,
    /// Somebody works, somebody is idle, and nobody watches. Advice: who is about to sleep looks.
    /// Of both, an old value is harmless: `watches` and `appoint` decide under the lock, and a
    /// thread whose own change makes a watch wanting looks after it.
    unwatched: AtomicBool,
    /// ... and nobody has been asked to. Advice: read relaxed at every push.
    unasked: AtomicBool,
    /// The watch's seat, or `NOBODY`; the lock's mirror. Advice, but to the watch itself, which is
    /// notified after this has been stored, or finds it by its own change.
    watch: AtomicUsize,
    /// There is a [`Search`]. `SeqCst`: a publisher that finds it set has published before, and is
    /// seen by the look of the thread that unsets it.
    searching: AtomicBool,
    /// How many borrowers have been relieved. Read relaxed at every step of a borrower.
    reliefs: AtomicU64,
}

struct State {
    /// By seat.
    places: Vec<Place>,
    /// The seats that may be called; the next last.
    list: Vec<usize>,
    /// How many seats are in use: those below this index.
    seats: usize,
    /// How many seats do not idle, and how many callers of `block_on` run tasks.
    working: usize,
    /// How many of the seats in use idle, lent ones too.
    idle: usize,
    watch: Option<usize>,
    loans: u64,
    calls: u64,
    /// The call of the one seat that is `Called`.
    open: Option<Open>,
    /// Who could watch has been asked to, or refused a thread by the system. Until a seat moves.
    asked: bool,
}

impl Idle {
    pub(crate) fn new(seats: usize) -> Self {
        Self {
            state: Mutex::new(State {
                places: vec![State::FRESH; seats],
                list: (0..seats).rev().collect(),
                seats,
                working: 0,
                idle: seats,
                watch: None,
                loans: 0,
                calls: 0,
                open: None,
                asked: false,
            }),
            listed: AtomicUsize::new(seats),
            unwatched: AtomicBool::new(false),
            unasked: AtomicBool::new(false),
            watch: AtomicUsize::new(NOBODY),
            searching: AtomicBool::new(false),
            reliefs: AtomicU64::new(0),
        }
    }

    /// Changes the state, and the mirrors with it.
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        let unwatched = state.is_unwatched();
        self.unwatched.store(unwatched, Ordering::Relaxed);
        self.unasked
            .store(unwatched && !state.asked, Ordering::Relaxed);
        // After these: who finds nobody to call finds that a watch is missing.
        self.listed.store(state.list.len(), Ordering::SeqCst);
        self.watch
            .store(state.watch.unwrap_or(NOBODY), Ordering::Relaxed);
        result
    }

    /// Whether a seat may be called.
    pub(crate) fn any_listed(&self) -> bool {
        self.listed.load(Ordering::SeqCst) > 0
    }

    /// Whether a watch is missing, and nobody has been asked to be it.
    #[inline]
    pub(crate) fn wants_a_watch(&self) -> bool {
        self.unasked.load(Ordering::Relaxed)
    }

    /// Whether this seat is the watch.
    #[inline]
    pub(crate) fn is_watch(&self, seat: usize) -> bool {
        self.watch.load(Ordering::Relaxed) == seat
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

    /// Calls a seat, the watch last of all and none below `first`, and gives it the search. The
    /// caller must notify it.
    ///
    /// # Errors
    ///
    /// Returns the search if there is no such seat.
    pub(crate) fn call(&self, first: usize, search: Search) -> Result<Called, Search> {
        self.change(|state| {
            let watch = state.watch;
            let others = |seat: &usize| *seat >= first && Some(*seat) != watch;
            let at = state.list.iter().rposition(others);
            let at = at.or_else(|| state.list.iter().rposition(|seat| *seat >= first));
            let Some(at) = at else { return Err(search) };
            let seat = state.list.remove(at);
            state.set(seat, At::Called);
            state.calls += 1;
            let number = state.calls;
            let called = Called { seat, number };
            let watched = watch == Some(seat);
            debug_assert!(state.open.is_none(), "there is one search");
            state.open = Some(Open {
                called,
                search,
                watched,
            });
            Ok(called)
        })
    }

    /// The seat's thread begins to work.
    pub(crate) fn leave(&self, seat: usize) -> Left {
        self.change(|state| {
            let watched = state.watch == Some(seat);
            let left = match state.open.take_if(|open| open.called.seat == seat) {
                Some(open) => Left {
                    search: Some(open.search),
                    watched: open.watched,
                },
                None => Left {
                    search: None,
                    watched,
                },
            };
            state.unlist(seat);
            state.set(seat, At::Works);
            left
        })
    }

    /// The seat's thread has nothing to do: it looks once more after this, and sleeps.
    pub(crate) fn enter(&self, seat: usize) {
        self.change(|state| {
            state.set(seat, At::Idle);
            state.enlist(seat);
        });
    }

    /// The call whose seat has not arrived.
    pub(crate) fn called(&self) -> Option<Called> {
        lock(&self.state).open.as_ref().map(|open| open.called)
    }

    /// Takes back the search of a call to a seat that could not be had, or does not come: the seat
    /// goes back to the list's end. None: it has come, or another thread has given the call up.
    pub(crate) fn give_up(&self, called: Called) -> Option<Search> {
        self.change(|state| {
            let open = state.open.take_if(|open| open.called == called)?;
            state.set(called.seat, At::Idle);
            if state.may_be_listed(called.seat) {
                state.list.insert(0, called.seat);
            }
            Some(open.search)
        })
    }

    /// How many seats there have been.
    pub(crate) fn seats(&self) -> usize {
        lock(&self.state).places.len()
    }

    /// Whether the seat's own thread may run tasks.
    pub(crate) fn may_run_tasks(&self, seat: usize) -> bool {
        let state = lock(&self.state);
        seat < state.seats && state.places[seat].loan == 0
    }

    /// Calls `f` while the seat's thread works, which therefore cannot become idle before `f` has
    /// returned. Returns false without a call if the thread does not work.
    pub(crate) fn while_works(&self, seat: usize, f: impl FnOnce() -> bool) -> bool {
        let state = lock(&self.state);
        state.places[seat].at == At::Works && f()
    }

    /// A thread that is no worker runs code of this pool's, and may wait for workers.
    pub(crate) fn begin_outside(&self) {
        self.change(|state| state.working += 1);
    }

    /// It is done.
    pub(crate) fn end_outside(&self) {
        self.change(|state| state.working -= 1);
    }

    /// Lends the next seat of the list.
    pub(crate) fn lend(&self) -> Option<Loan> {
        if !self.any_listed() {
            return None;
        }
        self.change(|state| {
            let seat = state.list.pop()?;
            state.loans += 1;
            state.places[seat].loan = state.loans;
            state.working += 1;
            let number = state.loans;
            Some(Loan { seat, number })
        })
    }

    /// Whether the borrower of a seat has not been relieved.
    pub(crate) fn is_lent(&self, loan: Loan) -> bool {
        lock(&self.state).places[loan.seat].loan == loan.number
    }

    /// The borrower is done.
    pub(crate) fn give_back(&self, loan: Loan) {
        self.change(|state| {
            state.working -= 1;
            let place = &mut state.places[loan.seat];
            if place.loan == loan.number {
                place.loan = 0;
                state.enlist(loan.seat);
            }
        });
    }

    /// The seat's thread takes back the right to run tasks from a borrower who is stuck, unless that
    /// one has just given it back.
    pub(crate) fn relieve(&self, seat: usize) {
        self.change(|state| {
            if std::mem::take(&mut state.places[seat].loan) != 0 {
                state.enlist(seat);
            }
        });
        self.reliefs.fetch_add(1, Ordering::Release);
    }

    /// How many borrowers have been relieved so far.
    #[inline]
    pub(crate) fn reliefs(&self) -> u64 {
        self.reliefs.load(Ordering::Relaxed)
    }

    /// Names the watch, if one is missing: the first idle seat of which `sleeps` says that its
    /// thread sleeps or has not started. The caller notifies it; or, where all that are idle
    /// spin, all these: the first of them that goes to sleep will be it.
    pub(crate) fn appoint(&self, sleeps: impl Fn(usize) -> bool) -> Appointed {
        self.change(|state| {
            if !state.is_unwatched() || state.asked {
                return Appointed::Nobody;
            }
            let idle = |seat: &usize| state.places[*seat].at == At::Idle;
            // One that may be called is the better watch: it can take tasks at once.
            let listed = state.list.iter().copied().find(|seat| sleeps(*seat));
            let lent = || (0..state.seats).filter(idle).find(|seat| sleeps(*seat));
            if let Some(seat) = listed.or_else(lent) {
                state.watch = Some(seat);
                return Appointed::Seat(seat);
            }
            state.asked = true;
            Appointed::Spinners
        })
    }

    /// The seat was named the watch, but does not sleep any more, or (`refused`) has no thread.
    pub(crate) fn unappoint(&self, seat: usize, refused: bool) {
        self.change(|state| {
            state.end_watch_of(seat);
            state.asked |= refused;
        });
    }

    /// Called by an idle seat before it sleeps: whether it is the watch, which it becomes if one is
    /// missing.
    pub(crate) fn watches(&self, seat: usize) -> bool {
        if !self.is_watch(seat) && !self.unwatched.load(Ordering::Relaxed) {
            return false;
        }
        self.change(|state| {
            if state.is_unwatched() && state.places[seat].at == At::Idle {
                state.watch = Some(seat);
            }
            state.watch == Some(seat)
        })
    }

    /// The watch has seen nothing for a while: it ceases to be it, if nobody works.
    pub(crate) fn resign(&self, seat: usize) -> bool {
        self.change(|state| {
            if state.working == 0 {
                state.end_watch_of(seat);
            }
            state.watch != Some(seat)
        })
    }

    /// Changes the number of seats in use.
    pub(crate) fn resize(&self, seats: usize) {
        self.change(|state| {
            if state.places.len() < seats {
                state.places.resize(seats, State::FRESH);
            }
            state.seats = seats;
            let places = &state.places;
            let idle = |seat: &usize| places[*seat].at == At::Idle;
            state.idle = (0..seats).filter(idle).count();
            let callable = |seat: &usize| idle(seat) && places[*seat].loan == 0;
            state.list = (0..seats).rev().filter(callable).collect();
            if state.watch.is_some_and(|watch| watch >= seats) {
                state.watch = None;
            }
        });
    }
}

/// Who is to be notified after [`Idle::appoint`].
pub(crate) enum Appointed {
    /// There is a watch already, or none is needed.
    Nobody,
    /// The watch.
    Seat(usize),
    /// All that idle without sleeping.
    Spinners,
}

impl State {
    const FRESH: Place = Place {
        at: At::Idle,
        loan: 0,
    };

    fn is_unwatched(&self) -> bool {
        self.watch.is_none() && self.working > 0 && self.idle > 0
    }

    /// Moves a seat, and ends its watch if it does not idle any more.
    fn set(&mut self, seat: usize, at: At) {
        let before = std::mem::replace(&mut self.places[seat].at, at);
        let idles = |at| usize::from(at == At::Idle);
        self.working = self.working + idles(before) - idles(at);
        if seat < self.seats {
            self.idle = self.idle + idles(at) - idles(before);
        }
        if at != At::Idle {
            self.end_watch_of(seat);
        }
        self.asked = false;
    }

    fn may_be_listed(&self, seat: usize) -> bool {
        let Place { at, loan } = self.places[seat];
        seat < self.seats && at == At::Idle && loan == 0
    }

    fn enlist(&mut self, seat: usize) {
        if self.may_be_listed(seat) {
            self.list.push(seat);
        }
    }

    fn unlist(&mut self, seat: usize) {
        if let Some(at) = self.list.iter().rposition(|listed| *listed == seat) {
            self.list.remove(at);
        }
    }

    fn end_watch_of(&mut self, seat: usize) {
        if self.watch == Some(seat) {
            self.watch = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a search for a seat to call, and ends it if there is none.
    fn call(idle: &Idle, first: usize) -> Option<usize> {
        match idle.call(first, idle.begin_search().expect("nobody searches")) {
            Ok(called) => Some(called.seat),
            Err(search) => {
                idle.end_search(search);
                None
            }
        }
    }

    /// The called seat arrives, and ends the search.
    fn arrive(idle: &Idle, seat: usize) -> Left {
        let mut left = idle.leave(seat);
        idle.end_search(left.search.take().expect("it was called"));
        left
    }

    #[test]
    fn the_watch_is_called_last_and_names_no_one_by_itself() {
        let idle = Idle::new(3);
        assert!(!idle.wants_a_watch(), "nobody works");
        idle.leave(0);
        assert!(idle.wants_a_watch());
        assert!(matches!(idle.appoint(|seat| seat == 1), Appointed::Seat(1)));
        assert_eq!(call(&idle, 0), Some(2));
        assert!(!arrive(&idle, 2).watched);
        assert_eq!(call(&idle, 0), Some(1), "there is no other");
        assert!(!idle.is_watch(1) && !idle.wants_a_watch(), "nobody idles");
        assert!(arrive(&idle, 1).watched, "it has to name the next");
        idle.enter(1);
        assert!(idle.wants_a_watch());
        assert!(idle.watches(1), "who goes to sleep is it");
        assert!(!idle.resign(1), "somebody works");
        [0, 2].iter().for_each(|seat| idle.enter(*seat));
        assert!(idle.resign(1));
    }

    #[test]
    fn a_lent_seat_is_not_called_and_may_be_relieved() {
        let idle = Idle::new(1);
        let loan = idle.lend().unwrap();
        assert!(!idle.any_listed() && !idle.may_run_tasks(0));
        assert!(matches!(idle.appoint(|_| true), Appointed::Seat(0)));
        idle.relieve(0);
        assert!(idle.may_run_tasks(0) && !idle.is_lent(loan));
        idle.give_back(loan);
        assert_eq!(call(&idle, 0), Some(0));
    }

    #[test]
    fn a_seat_that_was_given_back_before_its_borrower_is_relieved_is_listed_once() {
        let idle = Idle::new(1);
        let loan = idle.lend().unwrap();
        idle.give_back(loan);
        idle.relieve(0);
        assert_eq!(call(&idle, 0), Some(0));
        assert!(!idle.any_listed());
    }

    #[test]
    fn a_call_that_has_arrived_or_is_another_cannot_be_given_up() {
        let idle = Idle::new(2);
        let first = idle.call(1, idle.begin_search().unwrap()).unwrap();
        assert_eq!(idle.called(), Some(first));
        let search = idle.leave(1).search.expect("it was called");
        assert_eq!(idle.called(), None, "it has arrived");
        assert_eq!(idle.give_up(first), None);
        assert!(idle.begin_search().is_none(), "it searches");
        idle.end_search(search);

        idle.enter(1);
        let second = idle.call(1, idle.begin_search().unwrap()).unwrap();
        assert_eq!(idle.give_up(first), None, "the same seat, another call");
        let search = idle.give_up(second).expect("it has not arrived");
        assert_eq!(idle.give_up(second), None);
        assert_eq!(idle.leave(1).search, None, "others may search by now");
        idle.end_search(search);
    }

    #[test]
    fn seats_come_and_go() {
        let idle = Idle::new(4);
        idle.leave(3);
        idle.resize(2);
        assert_eq!(
            [(); 3].map(|()| {
                let seat = call(&idle, 0)?;
                arrive(&idle, seat);
                Some(seat)
            }),
            [Some(0), Some(1), None]
        );
        idle.enter(3);
        assert_eq!(call(&idle, 0), None, "out of use");
        idle.enter(0);
        assert_eq!(call(&idle, 0), Some(0));
        let search = idle.give_up(idle.called().unwrap()).unwrap();
        idle.end_search(search);
        assert_eq!(call(&idle, 0), Some(0));
        arrive(&idle, 0);
        idle.resize(4);
        assert_eq!(call(&idle, 3), Some(3));
    }
}
