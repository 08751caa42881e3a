//! What sleeping threads wait for.
//!
//! A program that waits for a lock or an answer looks idle, and only the kernel knows the
//! difference. It shows the function in which a thread sleeps, to the owner of the process and to
//! root.
//!
//! Source: proc_pid_wchan(5), and the names of the functions in Linux 5.4 to 6.18.

use super::threads::Thread;
use serde::Serialize;
use std::fs;

/// The maximum number of threads that we look at.
const THREADS_MOST: usize = 10_000;

/// A part of the names of functions, and what a thread waits for in them. The first match counts.
const FUNCTIONS: [(&str, &str); 26] = [
    ("futex", "a lock"),
    ("nanosleep", "a timer"),
    ("timer", "a timer"),
    ("epoll", "events"),
    ("ep_", "events"),
    ("poll", "events"),
    ("select", "events"),
    ("io_cqring", "events"),
    ("pipe", "a pipe"),
    ("unix_", "a socket"),
    ("inet_", "a socket"),
    ("sk_", "a socket"),
    ("skb_", "a socket"),
    ("tcp_", "a socket"),
    ("udp_", "a socket"),
    ("vsock", "a socket"),
    ("do_wait", "a child"),
    // A call of vfork waits until the child runs another program.
    ("vfork", "a child"),
    ("kernel_clone", "a child"),
    ("n_tty", "a terminal"),
    ("wait_woken", "a terminal or a socket"),
    ("sigsuspend", "a signal"),
    ("sigtimedwait", "a signal"),
    ("folio", "a disk"),
    ("bit_wait", "a disk"),
    ("io_schedule", "a disk"),
];

/// A number of threads that wait for the same kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Waiting {
    /// What these threads wait for, in words.
    #[serde(rename = "for")]
    pub what: &'static str,
    pub threads: usize,
}

/// Returns what the sleeping threads wait for now, the most frequent first. We look at up to
/// [`THREADS_MOST`] threads, and leave out threads for which the kernel does not say it.
pub fn of<'t>(threads: impl Iterator<Item = &'t Thread>) -> Vec<Waiting> {
    let mut all: Vec<Waiting> = Vec::new();
    let asleep = threads.filter(|t| matches!(t.state, 'S' | 'D' | 'T' | 't'));
    for t in asleep.take(THREADS_MOST) {
        let file = format!("/proc/{}/task/{}/wchan", t.pid, t.tid);
        let what = match t.state {
            'T' => Some("SIGCONT"),
            't' => Some("a debugger"),
            _ => kind(&fs::read_to_string(file).unwrap_or_default()),
        };
        let Some(what) = what else { continue };
        match all.iter_mut().find(|waiting| waiting.what == what) {
            Some(waiting) => waiting.threads += 1,
            None => all.push(Waiting { what, threads: 1 }),
        }
    }
    all.sort_by_key(|waiting| std::cmp::Reverse(waiting.threads));
    all
}

fn kind(function: &str) -> Option<&'static str> {
    let known = FUNCTIONS.iter().find(|(part, _)| function.contains(part));
    known.map(|(_, what)| *what)
}

/// Returns the list in words, or nothing if it is empty.
pub fn text(all: &[Waiting]) -> String {
    let each = all.iter().map(|waiting| {
        let threads = match waiting.threads {
            1 => "1 thread waits".into(),
            n => format!("{n} threads wait"),
        };
        format!("{threads} for {}", waiting.what)
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_threads_wait_for_a_signal() {
        let stopped = Thread {
            state: 'T',
            ..Thread::default()
        };
        assert_eq!(text(&of([stopped].iter())), "1 thread waits for SIGCONT");
    }

    #[test]
    fn kernel_function_names_show_what_a_thread_waits_for() {
        for (function, what) in [
            ("futex_do_wait", Some("a lock")),
            ("hrtimer_nanosleep", Some("a timer")),
            ("do_epoll_wait", Some("events")),
            ("poll_schedule_timeout.constprop.0", Some("events")),
            ("anon_pipe_read", Some("a pipe")),
            ("inet_csk_accept", Some("a socket")),
            ("unix_stream_read_generic", Some("a socket")),
            ("do_wait", Some("a child")),
            ("folio_wait_bit_common", Some("a disk")),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(kind(function), what, "{function}");
        }
        let waiting = |what, threads| Waiting { what, threads };
        let all = [waiting("a lock", 3), waiting("a timer", 1)];
        assert_eq!(
            text(&all),
            "3 threads wait for a lock, 1 thread waits for a timer"
        );
    }
}
