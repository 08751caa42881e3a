//! The four knobs as flags, for a program to offer where it wants its user to turn them.
//!
//! A flag that was not given leaves the program's own setting alone. No environment variable is
//! read.

use clap::Args;
use creel::{Balance, Builder, Observe, Wait};
use creel_topology::Placement;

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
    /// How many workers; by default the usable cores
    #[arg(short, long, value_name = "N", value_parser = jobs)]
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

/// Reads a number of workers; for programs with a `--jobs` of their own.
///
/// # Errors
///
/// What is no number from 1 to 4,096, named with the reason.
pub fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("there must be at least one worker".into()),
        Ok(jobs) if jobs > JOBS_MAX => Err(format!("more than {JOBS_MAX} workers")),
        Ok(jobs) => Ok(jobs),
        Err(_) => Err("not a number of workers".into()),
    }
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
    fn a_wrong_knob_is_named_with_what_would_do() {
        let wait = error(&["--wait", "nap"]);
        assert!(
            wait.contains("'nap'") && wait.contains("spin:TIME"),
            "{wait}"
        );
        assert!(error(&["--balance", "fair"]).contains("fixed, sticky, shared"));
        assert!(error(&["--jobs", "-1"]).contains("-1"));
        assert!(error(&["-j", "99999"]).contains("more than 4096 workers"));
    }
}
