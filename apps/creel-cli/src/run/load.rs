//! The load that other programs put on the CPUs.
//!
//! Threads that wait for each other by spinning are fast while each has a CPU of its own. Next to
//! other programs, however, a thread may spin for a whole time slice while the thread that it waits
//! for has no CPU. We measured an OpenMP loop with two threads on two CPUs next to compilers: it
//! took 6 s while its threads were spinning, and 0.3 s while they were sleeping.
//!
//! Source: proc_loadavg(5), and Documentation/accounting/psi.rst of Linux.

use creel_console::system;
use std::{thread::sleep, time::Duration};

/// The load that does not matter, for example that of an editor.
const FREE: f64 = 0.5;
/// The share of the last ten seconds in which some thread waited for a CPU, in percent, above which
/// the machine is busy.
const PRESSURE_MAX: f64 = 25.0;
/// The number of samples of the runnable threads. One sample alone would often count a daemon that
/// has just woken up.
const SAMPLES: u32 = 5;
/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(1);

/// The load of other programs. `creel advise` reads it once, before its own runs are a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The mean number of runnable threads in the last minute.
    minute: f64,
    /// The share of the last ten seconds in which some thread waited for a CPU, in percent.
    waiting: f64,
    /// The number of threads that are runnable now. It takes some milliseconds to sample.
    now: Option<f64>,
}

impl Load {
    /// Reads the averages of the kernel.
    pub fn read() -> Self {
        let pressure = system::text("/proc/pressure/cpu").unwrap_or_default();
        Self {
            minute: average(&loadavg()).unwrap_or(0.0),
            waiting: waiting(&pressure),
            now: None,
        }
    }

    /// Samples the threads that are runnable now.
    pub fn sample(&mut self) -> f64 {
        // The averages of the kernel do not include a program that has just started, so we count
        // the runnable threads as well.
        *self.now.get_or_insert_with(|| {
            let samples = (0..SAMPLES).map(|_| {
                sleep(INTERVAL);
                others(&loadavg()).unwrap_or(0.0)
            });
            samples.sum::<f64>() / f64::from(SAMPLES)
        })
    }

    /// Returns whether the load leaves no CPU for each of `workers` threads on a machine with
    /// `cpus` CPUs. If there are at least half as many workers as CPUs, it also returns true if
    /// threads have often waited for a CPU in the last ten seconds.
    pub fn contention(&mut self, workers: usize, cpus: usize) -> bool {
        is_busy(self.minute, self.waiting, workers, cpus)
            || is_busy(self.sample(), 0.0, workers, cpus)
    }
}

fn loadavg() -> String {
    system::text("/proc/loadavg").unwrap_or_default()
}

fn is_busy(load: f64, waiting: f64, workers: usize, cpus: usize) -> bool {
    let crowded = load + workers as f64 > cpus as f64 + FREE;
    // The pressure does not say how many CPUs are busy, so it counts only for a program that uses
    // much of the machine.
    crowded || (waiting > PRESSURE_MAX && workers * 2 >= cpus)
}

/// Returns the mean load of the last minute.
fn average(loadavg: &str) -> Option<f64> {
    loadavg.split(' ').next()?.parse().ok()
}

/// Returns the number of threads that are runnable now, except this one.
fn others(loadavg: &str) -> Option<f64> {
    let (runnable, _) = loadavg.split(' ').nth(3)?.split_once('/')?;
    Some(runnable.parse::<f64>().ok()? - 1.0)
}

/// Returns the share of the last ten seconds in which some thread waited for a CPU, in percent.
fn waiting(pressure: &str) -> f64 {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some avg10="));
    let share = some.and_then(|rest| rest.split(' ').next()?.parse().ok());
    share.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_averages_and_cpu_pressure_are_parsed() {
        let loadavg = "3.54 4.18 3.53 10/165 24912\n";
        assert_eq!((average(loadavg), others(loadavg)), (Some(3.54), Some(9.0)));
        let pressure = "some avg10=98.46 avg60=98.05 avg300=98.65 total=108\nfull avg10=0.00\n";
        assert_eq!(waiting(pressure), 98.46);
        assert_eq!(
            (average(""), others("1.0 x"), waiting("")),
            (None, None, 0.0)
        );
    }

    #[test]
    fn a_machine_is_busy_if_a_thread_has_no_cpu_of_its_own() {
        assert!(!is_busy(0.3, 5.0, 2, 2), "an idle machine");
        assert!(is_busy(3.5, 0.0, 2, 2), "compilers on two CPUs");
        assert!(!is_busy(20.0, 60.0, 4, 64), "other CPUs are free");
        assert!(is_busy(0.0, 60.0, 2, 2), "neighbours that started just now");
        let mut quiet = Load {
            minute: 0.2,
            waiting: 0.0,
            now: Some(0.0),
        };
        assert!(!quiet.contention(2, 2));
        assert!(quiet.contention(3, 2));
    }
}
