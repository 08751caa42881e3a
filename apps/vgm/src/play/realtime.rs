//! A thread that comes before others: the sink's needs some hundredths of a core, but needs them
//! before the device has played what it holds.
//!
//! Unsafe, because no crate of ours has the call. Where nothing of it is allowed, the device's buffer
//! has to do.
//!
//! Measured on two cores beside four threads that spin, for a thread that sleeps 10 ms again and again:
//! with nice -11 it comes up to 40 to 90 ms late, as without, and in a real-time class up to 10 ms. So
//! does a shorter slice (`sched_runtime`) change nothing.

/// What PulseAudio and PipeWire ask for themselves where they may not have a real-time class.
#[cfg(target_os = "linux")]
const NICE: i32 = -11;
/// Low among the real-time classes: sound servers come before it.
#[cfg(target_os = "linux")]
const REALTIME_PRIORITY: i32 = 5;

/// Lets the calling thread come before others, as far as the user may ask for that: as root, or by a
/// limit (`rtprio`, `nice`) that distributions give the group `audio`.
///
/// One that has other work, too, gets no real-time class: it could keep a core from all others.
#[cfg(target_os = "linux")]
pub(super) fn raise_priority(is_alone: bool) {
    if !(is_alone && set_realtime_class()) {
        // Of no process in particular is this thread alone, on Linux.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn come_first(_is_alone: bool) {}

/// Asks for a real-time class; whether it was given. Programs that this thread starts are as others.
#[cfg(target_os = "linux")]
fn set_realtime_class() -> bool {
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    let params = libc::sched_param {
        sched_priority: REALTIME_PRIORITY,
    };
    // SAFETY: 0 is the calling thread, and the wish is only read.
    #[expect(unsafe_code, reason = "a call of the system's")]
    let code = unsafe { libc::sched_setscheduler(0, policy, &raw const params) };
    code == 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// The nice value and the class of the calling thread: fields 19 and 41.
    fn class() -> (i32, i32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    }

    fn after(is_alone: bool) -> (i32, i32) {
        let asked = std::thread::spawn(move || {
            super::raise_priority(is_alone);
            class()
        });
        asked.join().unwrap()
    }

    #[test]
    fn only_a_dedicated_thread_gets_a_realtime_class() {
        let before = class();
        let (nice, shared) = after(false);
        assert!(shared == libc::SCHED_OTHER && nice <= before.0);
        let (nice, alone) = after(true);
        if alone == libc::SCHED_OTHER {
            eprintln!("no real-time class is allowed here: nice {nice}");
            assert!(nice <= before.0);
        } else {
            assert_eq!(alone, libc::SCHED_RR);
        }
        assert_eq!(class(), before, "no other thread is changed");
    }
}
