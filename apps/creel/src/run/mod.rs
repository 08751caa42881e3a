//! `creel run`: starts any program with the number of threads that its machine warrants.

mod elf;
mod explain;
mod plan;
mod program;
mod rules;

use anyhow::{Context, Result};
use clap::Args;
use creel_console::{Common, Exit, Failure, output};
use creel_topology::{CpuSet, Placement};
use explain::Target;
use plan::Wishes;
use std::{ffi::OsString, path::PathBuf};

/// Start a program right-sized to the usable cores, masks and quotas
///
/// Looks at the program, turns the knobs that its runtime reads, and becomes it: same process
/// id, signals and exit code. What you have set yourself stays, and the affinity mask is never
/// widened; it is narrowed only by --cpus, --placement and --no-smt.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel run -- java -jar server.jar
  creel run --explain --dry-run -- ./haskell-service
  creel run --jobs 4 --placement close -- ./simulation
  creel run --export docker -- ./service

Exit codes: the program's own; 2 for a wish that cannot be met, 126 and 127 as a shell's.")]
pub struct RunArgs {
    /// The number of workers, instead of the budget's
    #[arg(short, long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Narrow the mask to where so many workers would sit
    #[arg(long, default_value_t, value_name = "PLACEMENT")]
    placement: Placement,
    /// Narrow the mask to these CPUs, as in 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Narrow the mask to one hardware thread a core
    #[arg(long)]
    no_smt: bool,
    /// Also preload a library that answers how many CPUs there are (not for static programs)
    #[arg(long)]
    shim: bool,
    /// Start nothing: tell what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Tell each knob, its value and the reason, on stderr
    #[arg(long)]
    explain: bool,
    /// Start nothing: print the settings as configuration to paste
    #[arg(long, value_enum, value_name = "TARGET")]
    export: Option<Target>,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=65_535) => Ok(n),
        _ => Err("a number from 1 to 65535".into()),
    }
}

/// Runs `creel run`; on success it does not return, for this process is then the program.
pub fn run(args: &RunArgs, common: &Common) -> Result<Exit> {
    let (program, rest) = program::split(&args.command)?;
    let wishes = Wishes {
        jobs: args.jobs,
        placement: args.placement.clone(),
        cpus: args.cpus.clone(),
        no_smt: args.no_smt,
        shim: args.shim.then(shim).transpose()?,
    };
    let plan = plan::make(program, &wishes)?;
    if let Some(target) = args.export {
        output::text(&explain::export(&plan, target))?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        output::text(&explain::explain(&plan))?;
        return Ok(Exit::Done);
    }
    if args.explain && !common.quiet {
        eprint!("{}", explain::explain(&plan));
    }
    Err(plan.exec(rest))
}

/// The preload library lies beside this program, or in the `lib` folder beside its folder.
fn shim() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = own.parent().context("this program lies in no folder")?;
    let name = "libcreel_shim.so";
    let places = [beside.join(name), beside.join("../lib").join(name)];
    let missing = || {
        let text = format!(
            "--shim: {name} is not beside {}: build it with `cargo build --profile small -p creel-shim` \
             and put it there",
            own.display()
        );
        Failure::new(Exit::Usage, text).into()
    };
    places
        .into_iter()
        .find(|place| place.exists())
        .ok_or_else(missing)
}
