//! `creel run`: starts any program with the number of threads that its machine warrants.

mod elf;
mod exec;
mod explain;
mod export;
mod facts;
mod ghc;
mod knob;
mod plan;
mod program;
mod rules;
mod runtime;
mod shell;
mod variables;
mod watch;
mod wrappers;

use anyhow::{Context, Result};
use clap::Args;
use creel_console::{Common, Exit, Failure, Format, knobs, output};
use creel_topology::{CpuSet, Placement};
use export::Target;
use plan::Request;
use runtime::Runtime;
use std::{ffi::OsString, path::PathBuf};

use crate::options::{self, Round};

/// Start a program right-sized to the usable cores, masks and quotas
///
/// Looks at the program, turns the knobs that its runtime reads, and becomes it: same process
/// id, signals and exit code. What you have set yourself stays, and the affinity mask is never
/// widened; it is narrowed only by --cpu-list, --placement and --no-smt.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel run -- java -jar server.jar
  creel run --explain --dry-run -- ./haskell-service
  creel run -j4 --placement close -- ./simulation
  creel run --as java -- ./start-server.sh
  creel run --worker-memory 2GiB -- python train.py
  creel run --export docker -- ./service
  creel run --watch --on-change 'kill -USR1 $CREEL_PID' -- ./service

Exit codes: the program's own; 2 for a wish that cannot be met, 126 and 127 as a shell's.")]
pub struct RunArgs {
    /// The number of workers, instead of the budget's
    #[arg(short, long, value_name = "N", value_parser = knobs::jobs)]
    jobs: Option<usize>,
    /// What a quota of 2.5 CPUs is worth: floor 2 workers, ceil 3; by default what the runtime
    /// itself would make of it
    #[arg(long, value_enum)]
    rounding: Option<Round>,
    /// Start no more workers than fit into the memory limit, at so much each (512MiB, 2G)
    #[arg(long, value_name = "SIZE", value_parser = options::bytes)]
    worker_memory: Option<u64>,
    /// Narrow the mask to where so many workers would sit
    #[arg(long, default_value_t, value_name = "PLACEMENT")]
    placement: Placement,
    /// Narrow the mask to these CPUs, as in 0-3,8
    #[arg(long, value_name = "LIST")]
    cpu_list: Option<CpuSet>,
    /// Says which of the two is meant
    #[arg(long, hide = true, value_name = "?", value_parser = no_cpus)]
    cpus: Option<CpuSet>,
    /// Narrow the mask to one hardware thread a core
    #[arg(long)]
    no_smt: bool,
    /// The runtime inside, where creel cannot see it: java, go, ghc, python, erlang, …
    #[arg(long = "as", value_name = "RUNTIME", value_parser = runtime::runtime_named)]
    runtime: Option<Runtime>,
    /// Also size memory: Go's and Java's heap to the memory limit, GHC's allocation area to the
    /// cache
    #[arg(long)]
    gc: bool,
    /// Also preload a library that answers how many CPUs there are (not for static programs)
    #[arg(long)]
    shim: bool,
    /// Stay as the program's parent, and say on stderr when the limits change while it runs
    #[arg(long)]
    watch: bool,
    /// With --watch: also run this line of shell, with CREEL_WORKERS and CREEL_PID set, so that a
    /// program that can be told is told
    #[arg(long, value_name = "LINE", requires = "watch")]
    on_change: Option<String>,
    /// Start nothing: tell what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Tell each knob, its value and the reason, on stderr
    #[arg(long)]
    explain: bool,
    /// Start nothing: print the settings as configuration to paste
    #[arg(long, value_enum, value_name = "TARGET")]
    export: Option<Target>,
    /// The program and its arguments; all that follows the program is its own
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A count elsewhere, and a list in older versions of this program.
fn no_cpus(_: &str) -> Result<CpuSet, String> {
    Err("say --jobs N for a number of workers, --cpu-list LIST for a mask".into())
}

/// Runs `creel run`; on success it does not return, for this process is then the program.
pub fn run(args: &RunArgs, common: &Common) -> Result<Exit> {
    let request = Request {
        jobs: args.jobs,
        rounding: args.rounding.map(Round::into),
        worker_memory: args.worker_memory,
        placement: args.placement.clone(),
        cpus: args.cpu_list.clone().or(args.cpus.clone()),
        no_smt: args.no_smt,
        runtime: args.runtime,
        gc: args.gc,
        shim: args.shim.then(shim).transpose()?,
        explained: args.dry_run || args.explain || args.export.is_some(),
        variables_only: args.export.is_some(),
    };
    let plan = plan::make(&args.command, &request)?;
    if let Some(target) = args.export {
        let lines = export::export(&plan, target);
        if lines.is_empty() && !common.quiet {
            eprintln!(
                "creel: nothing is to be set here: {}",
                plan.notes.join("; ")
            );
        }
        output::text(&lines)?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        match common.format {
            Format::Text => output::text(&explain::explain(&plan))?,
            Format::Json => output::json(&explain::Document::new(&plan, &args.command))?,
            // The header says what there is none of.
            Format::Csv if plan.settings.is_empty() => output::text(explain::HEADER)?,
            Format::Csv => output::csv(explain::rows(&plan))?,
        }
        return Ok(Exit::Done);
    }
    if args.explain && !common.quiet {
        eprint!("{}", explain::explain(&plan));
    } else if plan.budget.is_none() && !common.quiet {
        eprintln!("creel: {}", plan.notes.join("; "));
    }
    if args.watch {
        let watch = watch::Watch {
            request: &request,
            on_change: args.on_change.as_deref(),
            quiet: common.quiet,
        };
        return watch.run(&plan, &args.command);
    }
    Err(plan.exec(&args.command))
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
