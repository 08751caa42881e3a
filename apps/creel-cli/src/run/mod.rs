//! `creel run` starts any program with the number of threads that the machine has room for.

mod elf;
pub(crate) mod exec;
pub(crate) mod executable;
mod explain;
pub(crate) mod export;
mod facts;
mod ghc;
mod knob;
pub mod load;
pub(crate) mod plan;
mod program;
mod rules;
pub(crate) mod runtime;
mod shell;
mod shim;
mod variables;
mod watch;
mod wrappers;

use anyhow::Result;
use clap::Args;
use creel_console::{Common, Exit, Failure, Format, knobs, output};
use creel_topology::{CpuSet, Placement};
use export::Target;
use plan::Request;
use runtime::Runtime;
use std::ffi::OsString;

use crate::options::{self, Round};

/// Start a program with as many threads as affinity masks and CPU quotas allow
///
/// creel detects the runtime of the program and sets the variables and options that control its
/// number of threads. Then it replaces itself by the program (exec), so that the program has the
/// same process id and receives your signals. Settings that you have made yourself stay as they
/// are. creel never widens the affinity mask. Only --cpu-list, --placement and --no-smt narrow it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel run -- java -jar server.jar
          Start a program with the right number of threads
  creel run --dry-run -- ./haskell-service
          Print what creel would set, and why
  creel run -j4 --placement close -- ./simulation
          Start four threads on neighbouring cores
  creel run --as java -- ./start-server.sh
          Name the runtime that a script starts
  creel run --export docker -- ./service
          Print the settings as arguments for docker run
  creel run --watch --on-change 'kill -USR1 $CREEL_PID' -- ./service
          Notify the program when the limits change

Exit codes:
  the code of the program
  2         the command line is wrong, or asks for something that this machine does not have
  126, 127  the program cannot be executed, or does not exist")]
pub struct RunArgs {
    /// Use this number of workers, instead of as many as the limits allow: a number, cores (one
    /// worker per core) or pus (one worker per hardware thread)
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = knobs::jobs,
        help_heading = "Number of workers"
    )]
    jobs: Option<usize>,
    /// Round a CPU quota to whole workers: a quota of 2.5 CPUs is 2 workers (floor) or 3 (ceil)
    /// [default: as the runtime of the program rounds it]
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        help_heading = "Number of workers"
    )]
    rounding: Option<Round>,
    /// Start only as many workers as fit into the memory limit if each needs SIZE (512MiB, 2G)
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = options::bytes,
        help_heading = "Number of workers"
    )]
    worker_memory: Option<u64>,
    /// Narrow the affinity mask to the CPUs on which this placement would put the workers. The
    /// placements are those of `creel topo --place`
    #[arg(
        long,
        default_value_t,
        value_name = "PLACEMENT",
        help_heading = "Affinity mask"
    )]
    placement: Placement,
    /// Narrow the affinity mask to these CPUs, for example 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Affinity mask")]
    cpu_list: Option<CpuSet>,
    /// Reject --cpus, and name the two options that may be meant
    #[arg(long, hide = true, value_name = "?", value_parser = no_cpus)]
    cpus: Option<CpuSet>,
    /// Narrow the affinity mask to one hardware thread per core
    #[arg(long, help_heading = "Affinity mask")]
    no_smt: bool,
    /// Name the runtime of the program if creel cannot detect it: java, go, ghc, python, erlang, …
    #[arg(
        long = "as",
        value_name = "RUNTIME",
        value_parser = runtime::runtime_named,
        help_heading = "Runtime"
    )]
    runtime: Option<Runtime>,
    /// Also set memory sizes. creel sets the heap size of Go and Java from the memory limit, and
    /// the allocation area of GHC from the cache size
    #[arg(long, help_heading = "Runtime")]
    gc: bool,
    /// Also make the program see the number of workers as the number of CPUs. For this, creel
    /// preloads a library, which has no effect on statically linked programs
    #[arg(long, help_heading = "Runtime")]
    shim: bool,
    /// Report on stderr when the limits change, and resize the Creel pools of the program that
    /// allow it. For this, creel stays the parent of the program
    #[arg(long, help_heading = "Changing limits")]
    watch: bool,
    /// Also run LINE in a shell when the limits change, for example to send the program a signal.
    /// The variable CREEL_WORKERS has the new number of workers, and CREEL_PID the process id of
    /// the program. Needs --watch
    #[arg(
        long,
        value_name = "LINE",
        requires = "watch",
        help_heading = "Changing limits"
    )]
    on_change: Option<String>,
    /// Print what creel would set, and why, without starting the program
    #[arg(short = 'n', long, help_heading = "Output")]
    dry_run: bool,
    /// Print each setting, its value and the reason on stderr (-v does the same)
    #[arg(long, help_heading = "Output")]
    explain: bool,
    /// Print the settings as configuration for TARGET, without starting the program
    #[arg(long, value_enum, value_name = "TARGET", help_heading = "Output")]
    export: Option<Target>,
    /// The program to start and its arguments; creel reads no options after it
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Rejects `--cpus`, because its meaning is not obvious. In other programs it is a number of CPUs.
fn no_cpus(_: &str) -> Result<CpuSet, String> {
    Err("use --jobs N for a number of workers, or --cpu-list LIST for an affinity mask".into())
}

/// Runs `creel run`. On success the function does not return, because this process becomes the
/// program. It returns in the modes that start nothing, and with `--watch`.
pub fn run(args: &RunArgs, common: &Common, verbose: bool) -> Result<Exit> {
    let explain = args.explain || verbose;
    if args.export.is_some() && common.format != Format::Text {
        let text = "--export has formats of its own: leave out --format, or use --dry-run \
                    instead of --export";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let request = Request {
        jobs: args.jobs,
        rounding: args.rounding.map(Round::into),
        worker_memory: args.worker_memory,
        placement: args.placement.clone(),
        cpus: args.cpu_list.clone().or(args.cpus.clone()),
        no_smt: args.no_smt,
        runtime: args.runtime,
        gc: args.gc,
        shim: args.shim.then(shim::library),
        load: None,
        explained: args.dry_run || explain || args.export.is_some(),
        variables_only: args.export.is_some(),
    };
    let plan = plan::make(&args.command, &request)?;
    if let Some(target) = args.export {
        let lines = export::export(&plan, target);
        if lines.is_empty() && !common.quiet {
            output::note(&format!(
                "creel: there is nothing to export, because creel would set nothing: {}\n",
                plan.notes.join("; ")
            ));
        }
        if matches!(target, Target::Docker) && lines.contains(['\'', '"']) && !common.quiet {
            output::note(
                "creel: a value has blanks or other special characters, which a shell does not \
                 unquote in $( ): use eval \"docker run $(creel run --export docker …) IMAGE\"\n",
            );
        }
        output::text(&lines)?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        match common.format {
            Format::Text => output::text(&explain::explain(&plan))?,
            Format::Json => output::json(&explain::Document::new(&plan, &args.command))?,
            // Without rows, the CSV writer would print no header.
            Format::Csv if plan.settings.is_empty() => output::text(explain::HEADER)?,
            Format::Csv => output::csv(explain::rows(&plan))?,
        }
        return Ok(Exit::Done);
    }
    if explain && !common.quiet {
        explain::to_stderr(&plan, &args.command, common.format)?;
    } else if plan.budget.is_none() && !common.quiet {
        output::note(&format!("creel: {}\n", plan.notes.join("; ")));
    } else if let Some(Err(reason)) = &request.shim
        && !common.quiet
    {
        output::note(&format!("creel: {reason}\n"));
    } else if let (true, Some(obstacle)) = (args.shim, plan.program.preload.obstacle())
        && !common.quiet
    {
        output::note(&format!("creel: --shim has no effect: {obstacle}\n"));
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
