//! The four knobs as flags, for a program to offer where it wants its user to turn them.
//!
//! A flag that was not given leaves the program's own setting alone. No environment variable is
//! read.

use clap::Args;
use creel::{Balance, Builder, Observe, Wait};
use creel_topology::{Budget, LimitKind, Machine, Placement};

/// `--jobs`, `--placement`, `--wait`, `--balance` and `--observe`; flatten it into the program's own flags.
///
/// ```
/// use clap::Parser;
/// use creel_console::Knobs;
///
/// #[derive(Parser)]
/// struct Cli {
///     #[command(flatten)]
///     knobs: Knobs,
/// }
///
/// let cli = Cli::try_parse_from(["program", "--jobs", "2", "--wait", "spin:20us"])?;
/// let pool = cli.knobs.apply(creel::Pool::builder()).build()?;
/// assert_eq!(pool.workers(), 2);
/// assert!(Cli::try_parse_from(["program", "--jobs", "0"]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Knobs")]
pub struct Knobs {
    /// How many workers: a number, cores (the usable ones, as by default) or pus (a worker for each
    /// of their hardware threads)
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub jobs: Option<usize>,
    /// Where they sit: unpinned, cores, pus, close, spread, per-cache, per-node, fast-cores,
    /// PUs (0,2,4-7) or a set of PUs a worker ({0-3},{4-7})
    #[arg(long, value_name = "P")]
    pub placement: Option<Placement>,
    /// How they wait: park, adaptive, spin:TIME, throttle:TIME
    #[arg(long, value_name = "W")]
    pub wait: Option<Wait>,
    /// How work moves between them: fixed, sticky, shared
    #[arg(long, value_name = "B")]
    pub balance: Option<Balance>,
    /// What others may do with them from outside: off, look (`creel top` shows them), resize
    /// (`creel run --watch` also changes how many there are)
    #[arg(long, value_name = "O")]
    pub observe: Option<Observe>,
}

impl Knobs {
    /// Sets on the builder what the user has set, and nothing else.
    pub fn apply(&self, mut builder: Builder) -> Builder {
        if let Some(jobs) = self.jobs {
            builder = builder.workers(jobs);
        }
        if let Some(placement) = &self.placement {
            builder = builder.placement(placement.clone());
        }
        if let Some(wait) = self.wait {
            builder = builder.wait(wait);
        }
        if let Some(balance) = self.balance {
            builder = builder.balance(balance);
        }
        if let Some(observe) = self.observe {
            builder = builder.observe(observe);
        }
        builder
    }
}

/// The most workers that a flag asks for. A pool takes more, but on no machine of today is more
/// than this anything but a slip of the finger.
const JOBS_MAX: usize = 4096;

/// Reads a number of workers, `cores` or `pus`; for programs with a `--jobs` of their own.
///
/// # Errors
///
/// What is no number from 1 to 4,096, or a word on a machine that cannot be read, named with the
/// reason.
pub fn jobs(text: &str) -> Result<usize, String> {
    match text {
        "cores" | "pus" => {
            let machine = Machine::detect().map_err(|error| error.to_string())?;
            Ok(match text {
                "cores" => Budget::of(&machine).workers(),
                _ => pus(&machine),
            })
        }
        _ => match text.parse() {
            Ok(0) => Err("there must be at least one worker".into()),
            Ok(jobs) if jobs > JOBS_MAX => Err(format!("more than {JOBS_MAX} workers")),
            Ok(jobs) => Ok(jobs),
            Err(_) => Err("not a number of workers, cores or pus".into()),
        },
    }
}

/// How many workers there are if each allowed PU has one, within the quotas.
///
/// ```
/// use creel_console::knobs::pus;
/// use creel_topology::Machine;
///
/// assert_eq!(pus(&Machine::synthetic("core:8 pu:2")?), 16);
/// # Ok::<(), creel_topology::Error>(())
/// ```
pub fn pus(machine: &Machine) -> usize {
    let budget = Budget::of(machine);
    let limits = budget.limits().iter();
    // Those that count cores do not count here.
    let others = limits.filter(|limit| matches!(limit.kind, LimitKind::Quota | LimitKind::Tasks));
    let least = others.map(|limit| limit.workers).min();
    let allowed = machine.allowed().len();
    least.map_or(allowed, |least| allowed.min(least)).max(1)
}

/// The line that says which hardware threads have no worker where there is one a core; none where
/// all have one.
///
/// ```
/// use creel_console::knobs::idle_pus;
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("core:10 pu:2")?;
/// let line = idle_pus(&machine, 10).unwrap();
/// assert_eq!(line, "10 of 20 hardware threads have no worker: one a core; --jobs pus gives each one");
/// assert_eq!(idle_pus(&machine, 20), None);
/// # Ok::<(), creel_topology::Error>(())
/// ```
pub fn idle_pus(machine: &Machine, workers: usize) -> Option<String> {
    let all = pus(machine);
    let idle = all.checked_sub(workers).filter(|idle| *idle > 0)?;
    Some(format!(
        "{idle} of {all} hardware threads have no worker: one a core; --jobs pus gives each one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        knobs: Knobs,
    }

    fn error(line: &[&str]) -> String {
        let parsed = Cli::try_parse_from([&["program"], line].concat());
        parsed
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn jobs_accept_a_number_or_a_word() {
        let of = |text: &str| jobs(text).unwrap();
        assert_eq!(of("7"), 7);
        assert!(of("cores") >= 1 && of("pus") >= of("cores"));
    }

    #[test]
    fn wrong_knobs_list_the_valid_values() {
        let wait = error(&["--wait", "nap"]);
        assert!(
            wait.contains("'nap'") && wait.contains("spin:TIME"),
            "{wait}"
        );
        assert!(error(&["--balance", "fair"]).contains("fixed, sticky, shared"));
        assert!(error(&["--jobs", "-1"]).contains("-1"));
        assert!(error(&["-j", "threads"]).contains("cores or pus"));
        assert!(error(&["-j", "99999"]).contains("more than 4096 workers"));
    }
}
