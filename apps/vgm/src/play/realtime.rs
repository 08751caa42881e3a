//! Raises the priority of the sink's thread. It needs only a few percent of a core, but it must run
//! before the buffer of the device is empty.
//!
//! This module has unsafe code, because none of our crates offers the system call. If the system
//! allows none of this, the buffer of the device must suffice.
//!
//! We measured the delay of a thread that sleeps for 10 ms again and again, on two cores with four
//! spinning threads. With nice -11, it runs up to 40 to 90 ms late, the same as without. In a
//! real-time class, it runs up to 10 ms late. A shorter time slice (`sched_runtime`) changes
//! nothing.

/// The nice value that PulseAudio and PipeWire use for themselves if they get no real-time class.
#[cfg(target_os = "linux")]
const NICE: i32 = -11;
/// The real-time priority. It is low, so that sound servers have precedence.
#[cfg(target_os = "linux")]
const REALTIME_PRIORITY: i32 = 5;

/// Raises the priority of the calling thread as far as the user is allowed to. The user needs to be
/// root or to have a limit (`rtprio`, `nice`), which some distributions give to the group `audio`.
///
/// Only a thread without other work (`is_alone`) gets a real-time class, because other work could
/// keep all other threads from using the core.
#[cfg(target_os = "linux")]
pub(super) fn raise_priority(is_alone: bool) {
    if !(is_alone && set_realtime_class()) {
        // On Linux, `setpriority` without a process affects only the calling thread.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn raise_priority(_is_alone: bool) {}

/// Requests a real-time class for the calling thread. Returns whether the system granted it.
/// Programs that the thread starts do not inherit the class.
#[cfg(target_os = "linux")]
fn set_realtime_class() -> bool {
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // The parameters of this class are a struct with one field for the kernel. We do not call
    // `sched_setscheduler`, because in musl it always fails.
    let params: libc::c_int = REALTIME_PRIORITY;
    // SAFETY: the pointer refers to `params`, which lives during the call, and the system only
    // reads it. 0 selects the calling thread.
    #[expect(unsafe_code, reason = "a system call without a safe wrapper")]
    let code = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const params) };
    code == 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Returns the nice value and the scheduling class of the calling thread (fields 19 and 41).
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
            eprintln!("this user may not use a real-time class: nice {nice}");
            assert!(nice <= before.0);
        } else {
            assert_eq!(alone, libc::SCHED_RR);
        }
        assert_eq!(class(), before, "another thread has changed");
    }
}
