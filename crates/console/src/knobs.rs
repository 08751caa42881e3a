//! The settings of a pool as command-line flags, for programs whose users may choose them.
//!
//! A flag that the user does not give leaves the program's own setting alone. We read no
//! environment variables here.

use crate::with_causes;
use clap::Args;
use creel::{Balance, Observe, PoolBuilder, Wait};
use creel_topology::{Budget, LimitKind, Machine, Placement};

/// The flags `--jobs`, `--placement`, `--wait`, `--balance` and `--observe`. Flatten them into the
/// program's own flags.
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
#[command(next_help_heading = "Pool settings")]
pub struct Knobs {
    /// Use this number of workers: a number, `cores` for one worker per usable core (the default)
    /// or `pus` for one worker per usable hardware thread
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub jobs: Option<usize>,
    /// Choose where the workers run: unpinned (the OS moves them), cores (one core per worker), pus
    /// (one hardware thread per worker), close (neighbouring cores), spread (cores far apart),
    /// per-cache or per-node (within one cache or NUMA node), fast-cores (only the fastest kind), a
    /// list of PUs (0,2,4-7), or one set of PUs per worker ({0-3},{4-7})
    #[arg(long, value_name = "PLACEMENT")]
    pub placement: Option<Placement>,
    /// Choose how idle workers wait: park (sleep at once), adaptive (spin for a short time, then
    /// sleep), spin:TIME (spin for TIME, for example spin:20us) or throttle:TIME (react once per
    /// TIME)
    #[arg(long, value_name = "WAIT")]
    pub wait: Option<Wait>,
    /// Choose how the items of a loop are divided among the workers: fixed (equal shares), sticky
    /// (equal shares from which idle workers take blocks), shared (one queue for all workers)
    #[arg(long, value_name = "BALANCE")]
    pub balance: Option<Balance>,
    /// Choose what other processes may do with the pool: off, look (`creel top` shows its workers)
    /// or resize (`creel run --watch` also changes their number)
    #[arg(long, value_name = "OBSERVE")]
    pub observe: Option<Observe>,
}

impl Knobs {
    /// Returns the builder with the settings that the user has given, and changes nothing else.
    pub fn apply(&self, mut builder: PoolBuilder) -> PoolBuilder {
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

/// The largest number of workers that a flag accepts. A pool would accept more. However, on the
/// machines of today a larger number is probably a typing error.
const JOBS_MAX: usize = 4096;

/// Parses a number of workers, `cores` or `pus`, for programs with a `--jobs` flag of their own.
///
/// # Errors
///
/// Returns a message if the text is neither a number from 1 to 4,096 nor one of the two words. Also
/// returns one if the text is a word and the machine cannot be read.
pub fn jobs(text: &str) -> Result<usize, String> {
    match text {
        "cores" | "pus" => {
            let machine = Machine::detect().map_err(with_causes)?;
            Ok(match text {
                "cores" => Budget::of(&machine).workers(),
                _ => pus(&machine),
            })
        }
        _ => match text.parse() {
            Ok(0) => Err("a pool needs at least one worker".into()),
            Ok(jobs) if jobs > JOBS_MAX => {
                Err(format!("more than {JOBS_MAX} workers are not supported"))
            }
            Ok(jobs) => Ok(jobs),
            Err(_) => Err("expected a number of workers, cores or pus".into()),
        },
    }
}

/// Returns the number of workers if each allowed PU has one, limited by the quotas and the limits
/// on tasks.
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
    // We skip the limits that count cores, because here each hardware thread gets a worker.
    let others = limits.filter(|limit| matches!(limit.kind, LimitKind::Quota | LimitKind::Tasks));
    let least = others.map(|limit| limit.workers).min();
    let allowed = machine.allowed().len();
    least.map_or(allowed, |least| allowed.min(least)).max(1)
}

/// Returns a note on the hardware threads that have no worker because each core has only one, or
/// `None` if each hardware thread has a worker.
///
/// ```
/// use creel_console::knobs::idle_pus;
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("core:10 pu:2")?;
/// let line = idle_pus(&machine, 10).unwrap();
/// let note = "10 of 20 hardware threads have no worker, because each core has one worker; use \
///             --jobs pus to give each hardware thread a worker";
/// assert_eq!(line, note);
/// assert_eq!(idle_pus(&machine, 20), None);
/// # Ok::<(), creel_topology::Error>(())
/// ```
pub fn idle_pus(machine: &Machine, workers: usize) -> Option<String> {
    let all = pus(machine);
    let idle = all.checked_sub(workers).filter(|idle| *idle > 0)?;
    Some(format!(
        "{idle} of {all} hardware threads have no worker, because each core has one worker; use \
         --jobs pus to give each hardware thread a worker"
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
    fn errors_of_wrong_settings_name_the_valid_values() {
        let wait = error(&["--wait", "nap"]);
        assert!(
            wait.contains("'nap'") && wait.contains("spin:TIME"),
            "{wait}"
        );
        assert!(error(&["--balance", "fair"]).contains("fixed, sticky, shared"));
        assert!(error(&["--jobs", "-1"]).contains("-1"));
        assert!(error(&["-j", "threads"]).contains("cores or pus"));
        assert!(error(&["-j", "99999"]).contains("more than 4096 workers are not supported"));
    }
}
