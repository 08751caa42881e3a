//! CPU time: this process's, the machine's, and so what others took meanwhile.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The CPU time that all threads of this process have used, in seconds.
pub fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What disturbed a run, as shares of the machine's CPU time, 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Disturbance {
    /// Used by other processes.
    others: f64,
    /// Taken by the host of a virtual machine.
    stolen: f64,
}

impl Disturbance {
    /// In words, where it is enough to doubt the figures.
    pub fn warning(&self) -> Option<String> {
        let percent = |share: f64| (share * 100.0).round();
        (self.others + self.stolen > 0.02).then(|| {
            format!(
                "others used {} % of the machine meanwhile, its host {} %: repeat it when it is quiet",
                percent(self.others),
                percent(self.stolen)
            )
        })
    }
}

/// The clocks at the beginning of a run.
pub struct Watch {
    begin: Option<Machine>,
    own_s: f64,
}

impl Watch {
    /// Begins to watch.
    pub fn start() -> Self {
        Watch {
            begin: Machine::now(),
            own_s: process_cpu_s(),
        }
    }

    /// What disturbed since then; nothing where the system does not tell.
    pub fn disturbance(&self) -> Option<Disturbance> {
        let (begin, end) = (self.begin?, Machine::now()?);
        let all = end.all - begin.all;
        let own = (process_cpu_s() - self.own_s) * TICKS_A_SECOND;
        let share = |ticks: f64| {
            if all > 0.0 {
                (ticks / all).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let busy = end.busy - begin.busy;
        Some(Disturbance {
            others: share(busy - own),
            stolen: share(end.stolen - begin.stolen),
        })
    }
}

/// Source: proc(5); the unit is fixed at 1/100 s for programs on all architectures of today.
const TICKS_A_SECOND: f64 = 100.0;

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
    fn the_first_line_of_stat_is_the_machine() {
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
}
