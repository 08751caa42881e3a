//! Measures CPU time: that of this process, and that of the whole machine. The difference shows how
//! much other programs have disturbed a run.

use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};

/// Returns the CPU time of all threads of this process in seconds.
pub fn process_cpu_s() -> f64 {
    ProcessTime::now().as_duration().as_secs_f64()
}

/// The largest disturbance with which we compare a run with another, as a share of the machine's
/// CPU time. A run that was disturbed more has unreliable results.
pub const DISTURBED_SHARE: f64 = 0.05;

/// The parts of the machine's CPU time that disturbed a run, from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// The part that other processes used.
    pub others: f64,
    /// The part that the host of a virtual machine used for other guests.
    pub stolen: f64,
}

impl Disturbance {
    /// Returns the sum of both parts.
    pub fn share(&self) -> f64 {
        self.others + self.stolen
    }

    /// Returns the larger one of two disturbances, for a run that was measured in several parts.
    pub fn or_worse(self, other: Self) -> Self {
        if other.share() > self.share() {
            other
        } else {
            self
        }
    }

    /// Returns both parts in percent, if they are large enough to make the results doubtful.
    pub fn noteworthy(&self) -> Option<(f64, f64)> {
        let percent = |share: f64| (share * 100.0).round();
        (self.share() > 0.02).then(|| (percent(self.others), percent(self.stolen)))
    }

    /// Returns a warning, if the disturbance is noteworthy.
    pub fn warning(&self) -> Option<String> {
        self.noteworthy().map(|(others, host)| {
            format!(
                "other programs used {others} % of the CPU time, and the host of the virtual \
                 machine {host} %: repeat the run when the machine is quiet"
            )
        })
    }
}

/// Measures how much other programs and the host disturb a run, from [`start`](Self::start) on.
pub struct DisturbanceMeter {
    begin: Option<(Machine, f64)>,
}

impl DisturbanceMeter {
    /// Starts to measure, at the present CPU times.
    pub fn start() -> Self {
        DisturbanceMeter {
            begin: Machine::now().zip(own_ticks()),
        }
    }

    /// Returns the disturbance since the start, or `None` if the system does not report CPU times.
    pub fn disturbance(&self) -> Option<Disturbance> {
        let ((begin, own_before), (end, own)) = (self.begin?, Machine::now().zip(own_ticks())?);
        let all = end.all - begin.all;
        let share = |ticks: f64| {
            if all > 0.0 {
                (ticks / all).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let others = end.busy - begin.busy - (own - own_before);
        Some(Disturbance {
            others: share(others),
            stolen: share(end.stolen - begin.stolen),
        })
    }
}

/// Returns the CPU time of this process and of its children that have ended, in the ticks of
/// [`Machine`].
fn own_ticks() -> Option<f64> {
    parse_own(&creel_console::system::text("/proc/self/stat").ok()?)
}

/// Adds fields 14 to 17: utime, stime, cutime and cstime. We search for the last parenthesis first,
/// because the second field is the name of the program in parentheses and may contain anything.
///
/// Source: proc(5).
fn parse_own(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(4);
    let ticks: Vec<f64> = fields.map_while(|field| field.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

/// The CPU time of the machine since it was booted, in ticks over all PUs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Machine {
    all: f64,
    busy: f64,
    stolen: f64,
}

impl Machine {
    fn now() -> Option<Self> {
        Machine::parse(&creel_console::system::text("/proc/stat").ok()?)
    }

    /// Parses the first line: user nice system idle iowait irq softirq steal guest guest_nice.
    /// The times of guests are included in user and nice.
    fn parse(stat: &str) -> Option<Self> {
        let ticks: Vec<f64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        Some(Machine {
            all: busy + idle + iowait + stolen,
            busy,
            stolen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_proc_stat_is_parsed() {
        let stat = "cpu  10 1 5 80 2 1 1 3 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(
            Machine::parse(stat),
            Some(Machine {
                all: 103.0,
                busy: 18.0,
                stolen: 3.0
            })
        );
        assert_eq!(Machine::parse("cpu  1 2 3\n"), None);
        assert_eq!(Machine::parse(""), None);
    }

    #[test]
    fn own_time_includes_children_that_have_ended() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4 90 0 0 0 3 4 50 60 20 0 1 0 99 0";
        assert_eq!(parse_own(stat), Some(117.0));
        assert_eq!(parse_own("7 (a) R 1 7"), None);
    }
}
