//! `creel topo` shows a machine, to people and to programs, and where workers would be placed on
//! it.

mod report;
mod text;

use std::io::ErrorKind::NotFound;
use std::path::PathBuf;

use anyhow::Context;
use creel_console::machine::{View, WorkerPlacement};
use creel_console::{Common, Exit, Failure, Format, knobs, output, with_causes};
use creel_topology::{Budget, Error, Machine, Placement, place};

use crate::drawing;
use crate::options::{self, Round};

/// The flags of `creel topo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  creel topo
          Show this machine
  creel topo --place per-cache --workers 8
          Show where eight workers would be placed
  creel topo --synthetic 'package:2 numa:1 l3:2 core:8 pu:2' --svg machine.svg
          Draw a machine that you do not have")]
pub struct Args {
    /// Show another machine: read copies of its /sys and /proc from the folder DIR
    #[arg(long, value_name = "DIR", help_heading = "Machine")]
    root: Option<PathBuf>,
    /// Show an invented machine. Each LEVEL:N (package, die, numa, l4, l3, l2, l1, core, pu) says
    /// how many of this level are in one of the level before it. "package:2 l3:2 core:8 pu:2" has 2
    /// packages with 2 L3 caches each. "core:6+8 pu:2+1" has two kinds of cores
    #[arg(
        long,
        value_name = "LEVELS",
        conflicts_with = "root",
        help_heading = "Machine"
    )]
    synthetic: Option<String>,
    /// Show where workers are placed: unpinned (the OS moves them), cores (one core per worker),
    /// pus (one hardware thread per worker), close (neighbouring cores), spread (cores far apart),
    /// per-cache or per-node (within one cache or NUMA node), fast-cores (only the fastest kind), a
    /// list of PUs (0,2,4-7), or one set of PUs per worker ({0-3},{4-7})
    #[arg(long, value_name = "PLACEMENT", help_heading = "Workers")]
    place: Option<Placement>,
    /// Place N workers, instead of as many as the limits allow
    #[arg(
        long,
        value_name = "N",
        value_parser = knobs::jobs,
        help_heading = "Workers"
    )]
    workers: Option<usize>,
    /// Round a CPU quota to whole workers: a quota of 2.5 CPUs is 2 workers (floor) or 3 (ceil)
    #[arg(
        long,
        value_enum,
        default_value_t = Round::Floor,
        value_name = "HOW",
        help_heading = "Workers"
    )]
    rounding: Round,
    /// Allow only as many workers as fit into the memory limit if each needs SIZE (512MiB, 2G)
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = options::bytes,
        help_heading = "Workers"
    )]
    worker_memory: Option<u64>,
    /// Also draw the machine as SVG into FILE. If FILE is -, draw to stdout and print nothing else
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
}

/// Reads the machine, places the workers and prints both.
pub fn run(args: &Args, common: &Common, verbose: bool) -> anyhow::Result<Exit> {
    let view = view(args).map_err(with_exit)?;
    if args.svg.as_deref().is_some_and(drawing::is_stdout) {
        output::text(&view.svg())?;
        return Ok(Exit::Done);
    }
    if let Some(file) = &args.svg {
        drawing::write(file, &view.svg())
            .with_context(|| format!("cannot write the drawing to {}", file.display()))?;
    }
    match common.format {
        Format::Text => output::text(&text::draw(&view, verbose))?,
        Format::Json => output::json(&report::Document::new(&view))?,
        Format::Csv => output::csv(report::rows(&view))?,
    }
    Ok(Exit::Done)
}

fn view(args: &Args) -> Result<View, Error> {
    let machine = match (&args.synthetic, &args.root) {
        (Some(description), _) => Machine::synthetic(description)?,
        (None, Some(root)) => Machine::read_from(root)?,
        (None, None) => Machine::detect()?,
    };
    let mut budget = Budget::rounded(&machine, args.rounding.into());
    if let Some(bytes) = args.worker_memory {
        budget = budget.with_memory(&machine, bytes);
    }
    let workers = args.workers.unwrap_or(budget.workers());
    let placement = args
        .place
        .clone()
        .or(args.workers.map(|_| Placement::Cores));
    let worker_placement = placement.map(|placement| {
        let layout = place(&machine, machine.allowed(), workers, &placement)?;
        Ok(WorkerPlacement { placement, layout })
    });
    Ok(View {
        worker_placement: worker_placement.transpose()?,
        machine,
        budget,
    })
}

/// Returns the notes on a machine. They name facts that its files hide or contradict, and say
/// whether only a CPU weight limits this process.
fn notes(machine: &Machine) -> impl Iterator<Item = String> {
    let notes = machine.notes().iter().cloned();
    notes.chain(machine.weight_only())
}

/// Chooses the exit code: a mistake on the command line is a usage error, and an unreadable machine
/// is bad data, unless the folder does not exist.
fn with_exit(error: Error) -> Failure {
    let exit = match &error {
        Error::Unreadable { source, .. } if source.kind() == NotFound => Exit::SomeFailed,
        Error::Syntax { .. } | Error::NotAllowed { .. } => Exit::Usage,
        Error::Unreadable { .. } | Error::NoMachine { .. } => Exit::BadData,
        _ => Exit::SomeFailed,
    };
    Failure::new(exit, with_causes(error))
}
