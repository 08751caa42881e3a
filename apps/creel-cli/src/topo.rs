//! `creel topo`: a machine as people and programs read it, and where workers would sit on it.

mod report;
mod text;

use std::path::PathBuf;

use anyhow::Context;
use creel_console::machine::{View, WorkerPlacement};
use creel_console::{Common, Exit, Failure, Format, knobs, output};
use creel_topology::{Budget, Error, Machine, Placement, place};

use crate::drawing;
use crate::options::{self, Round};

/// The flags of `creel topo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  creel topo
  creel topo --place per-cache --workers 8
          where eight workers would sit
  creel topo --synthetic 'package:2 numa:1 l3:2 core:8 pu:2' --svg machine.svg
          a machine that is not at hand, drawn")]
pub struct Args {
    /// Read a captured tree: a folder with copies of /sys and /proc
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Make a machine up, e.g. "package:2 numa:1 l3:2 core:8 pu:2" or "core:6+8 pu:2+1"
    #[arg(long, value_name = "LEVELS", conflicts_with = "root")]
    synthetic: Option<String>,
    /// Show where workers sit: unpinned, cores, pus, close, spread, per-cache, per-node,
    /// fast-cores, PUs (0,2,4-7) or sets ({0-3},{4-7})
    #[arg(long, value_name = "PLACEMENT")]
    place: Option<Placement>,
    /// How many workers to place; by default what the budget allows
    #[arg(long, value_name = "N", value_parser = knobs::jobs)]
    workers: Option<usize>,
    /// What a quota of 2.5 CPUs is worth: floor 2 workers, ceil 3
    #[arg(long, value_enum, default_value_t = Round::Floor)]
    rounding: Round,
    /// How many workers fit into the memory limit, at so much each (512MiB, 2G)
    #[arg(long, value_name = "SIZE", value_parser = options::bytes)]
    worker_memory: Option<u64>,
    /// Also draw the machine into this file; - draws on stdout, and prints nothing else
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Reads the machine, seats the workers, prints.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Exit> {
    let view = view(args).map_err(with_exit)?;
    if args.svg.as_deref().is_some_and(drawing::is_stdout) {
        output::text(&view.svg())?;
        return Ok(Exit::Done);
    }
    if let Some(file) = &args.svg {
        drawing::write(file, &view.svg()).with_context(|| file.display().to_string())?;
    }
    match common.format {
        Format::Text => output::text(&text::draw(&view, common.verbose > 0))?,
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

/// What the user wrote is a usage error; what a tree says is bad data.
fn with_exit(error: Error) -> Failure {
    let exit = match error {
        Error::Syntax { .. } | Error::NotAllowed { .. } => Exit::Usage,
        Error::Unreadable { .. } | Error::Malformed { .. } | Error::NoMachine { .. } => {
            Exit::BadData
        }
        _ => Exit::SomeFailed,
    };
    Failure::new(exit, error.to_string())
}
