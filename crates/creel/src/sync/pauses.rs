//! Random pauses between the runtime's steps on shared memory, under `--cfg creel_pauses`.
//!
//! The OS may take a thread's CPU away between any two of its steps, for milliseconds. In an
//! ordinary run of the tests, that almost never happens at the few places where a fault needs it.
//! Under this cfg, every operation on an atomic from `sync.rs`, and every lock, is a place where
//! the thread may pause.
//!
//! Many faults need several threads to pause at certain places at the same time. If the pauses were
//! spread evenly over all places, several threads would almost never pause at these places at once.
//! Therefore the pauses come in *epochs* of [`EPOCH`]. In each epoch, the seed chooses which places
//! are slow. One place in [`SLOW`] is slow in most of the source code. In one file it is every
//! second place, because most protocols between threads are in one file. `CREEL_PAUSES_AT` names
//! that file, and the default is [`FILE`].
//!
//! Only the first thread that passes a slow place in an epoch pauses there. The others continue,
//! because most faults occur when one thread acts on data that others have changed in the time
//! between. For the same reason, a place that is passed a million times a second does not stall the
//! tests.
//!
//! `CREEL_PAUSES_SEED` sets the seed. The same seed makes the same places slow in the same epochs.
//! However, the rest of the schedule belongs to the OS, so you may need several runs to reproduce a
//! failure.

use std::{
    cell::Cell,
    io::Write,
    ops::Deref,
    panic::Location,
    sync::{OnceLock, atomic},
    thread,
    time::{Duration, Instant},
};

/// The time for which the same places are slow.
const EPOCH: Duration = Duration::from_millis(30);
/// In most source files, one place in this many is slow.
const SLOW: u64 = 32;
/// In the file that has most of the pauses, one place in this many is slow.
const SLOW_IN_FILE: u64 = 2;
/// The end of the name of the file that has most of the pauses, by default.
const FILE: &str = "task/lifo.rs";
/// The maximum number of times that [`SHORTEST`] is doubled for a pause.
const DOUBLED: u64 = 3;
/// The shortest pause. It is longer than the time between two checks of the watchdog.
const SHORTEST: Duration = Duration::from_millis(2);
/// At places that are not slow, a thread yields its CPU about once in this many steps.
const YIELD_EVERY: u64 = 256;
/// The number of steps of a thread between two reads of the clock.
const STEPS_A_LOOK: u64 = 32;
/// The number of cells in which we record the epoch of the last pause at a place. A hash of the
/// place selects the cell.
const CELLS: usize = 1024;

struct Settings {
    seed: u64,
    file: String,
    begin: Instant,
}

/// The number of the current epoch. It is relaxed like all atomics here, because nothing depends on
/// an order.
static NOW: atomic::AtomicU64 = atomic::AtomicU64::new(0);
/// The number of threads that have drawn their first random number.
static THREADS: atomic::AtomicU64 = atomic::AtomicU64::new(0);
/// The epoch of the last pause at each place.
static PAUSED: [atomic::AtomicU64; CELLS] = [const { atomic::AtomicU64::new(0) }; CELLS];

thread_local! {
    /// The state of the thread's random numbers, or 0 before the first.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let seed = match std::env::var("CREEL_PAUSES_SEED") {
            Ok(text) => text.parse().expect("CREEL_PAUSES_SEED is a number"),
            Err(_) => u64::from(std::process::id()),
        };
        // We do not use `eprintln`, because the test harness would capture the output.
        let _ = writeln!(std::io::stderr(), "CREEL_PAUSES_SEED={seed}");
        let file = std::env::var("CREEL_PAUSES_AT").unwrap_or_else(|_| FILE.to_string());
        let begin = Instant::now();
        Settings { seed, file, begin }
    })
}

/// The finalizer of SplitMix64, in which every bit of the input changes about half of the bits of
/// the output. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the thread's next random number.
fn random(seed: u64) -> u64 {
    let next = |state: &Cell<u64>| {
        if state.get() == 0 {
            let thread = THREADS.fetch_add(1, atomic::Ordering::Relaxed);
            state.set(mix(seed ^ mix(thread + 1)) | 1);
        }
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(state.get())
    };
    RANDOM.try_with(next).unwrap_or(0)
}

/// Pauses the calling thread in some cases, depending on the caller's place in the source code.
#[track_caller]
pub(crate) fn pause() {
    let Settings { seed, file, begin } = settings();
    let random = random(*seed);
    if random.is_multiple_of(STEPS_A_LOOK) {
        let epoch = begin.elapsed().as_nanos() / EPOCH.as_nanos();
        NOW.store(epoch as u64 + 1, atomic::Ordering::Relaxed);
    }
    let now = NOW.load(atomic::Ordering::Relaxed);
    let at = Location::caller();
    let place = (u64::from(at.line()) << 32) | (u64::from(at.column()) << 16);
    let place = mix(place ^ at.file().len() as u64);
    let slow = match at.file().ends_with(file) {
        true => SLOW_IN_FILE,
        false => SLOW,
    };
    if !mix(place ^ mix(now ^ seed)).is_multiple_of(slow) {
        if (random >> 8).is_multiple_of(YIELD_EVERY) {
            thread::yield_now();
        }
        return;
    }
    let paused = &PAUSED[place as usize % CELLS];
    if paused.swap(now, atomic::Ordering::Relaxed) != now {
        thread::sleep(SHORTEST * (1 << ((random >> 16) % (DOUBLED + 1))));
    }
}

/// Creates an atomic type that may pause before every operation, because every operation goes
/// through `deref`.
macro_rules! pausing {
    ($($name:ident $(<$param:ident>)? : $value:ty),* $(,)?) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name $(<$param>)? (atomic::$name $(<$param>)?);

        impl $(<$param>)? $name $(<$param>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }
        }

        impl $(<$param>)? Deref for $name $(<$param>)? {
            type Target = atomic::$name $(<$param>)?;

            #[track_caller]
            fn deref(&self) -> &Self::Target {
                pause();
                &self.0
            }
        }
    )*};
}

pausing! {
    AtomicBool: bool,
    AtomicIsize: isize,
    AtomicPtr<T>: *mut T,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
}
