//! CPU time: this process's, the machine's, and so what others took meanwhile.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The CPU time that all threads of this process have used, in seconds.
pub fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Above this share of the machine, what others took makes a run unfit to be compared.
pub const DISTURBED_SHARE: f64 = 0.05;

/// What disturbed a run, as shares of the machine's CPU time, 0 to 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Disturbance {
    /// Used by other processes.
    pub others: f64,
    /// Taken by the host of a virtual machine.
    pub stolen: f64,
}

impl Disturbance {
    /// Both together.
    pub fn share(&self) -> f64 {
        self.others + self.stolen
    }

    /// The worse of two parts of a run.
    pub fn or_worse(self, other: Self) -> Self {
        if other.share() > self.share() {
            other
        } else {
            self
        }
    }

    /// Both in percent, where they are enough to doubt the figures.
    pub fn noteworthy(&self) -> Option<(f64, f64)> {
        let percent = |share: f64| (share * 100.0).round();
        (self.share() > 0.02).then(|| (percent(self.others), percent(self.stolen)))
    }

    /// The same in words.
    pub fn warning(&self) -> Option<String> {
        self.noteworthy().map(|(others, host)| {
            format!(
                "others used {others} % of the machine meanwhile, its host {host} %: repeat it \
                 when it is quiet"
            )
        })
    }
}

/// The clocks at the beginning of a run.
pub struct DisturbanceMeter {
    begin: Option<(Machine, f64)>,
}

impl DisturbanceMeter {
    /// Begins to watch.
    pub fn start() -> Self {
        DisturbanceMeter {
            begin: Machine::now().zip(own_ticks()),
        }
    }

    /// What disturbed since then; nothing where the system does not tell.
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

/// The CPU time of this process and of its children that have ended, in the ticks of
/// [`Machine`].
fn own_ticks() -> Option<f64> {
    parse_own(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 14 to 17: utime, stime, cutime, cstime. The second field, the name in parentheses,
/// may hold anything.
///
/// Source: proc(5).
fn parse_own(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(4);
    let ticks: Vec<f64> = fields.map_while(|field| field.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

/// The machine's CPU time since its start, in ticks over all PUs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Machine {
    all: f64,
    busy: f64,
    stolen: f64,
}

impl Machine {
    fn now() -> Option<Self> {
        Machine::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line: user nice system idle iowait irq softirq steal guest guest_nice,
    /// where the guests' time is in user and nice already.
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
