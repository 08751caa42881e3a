//! The flags by which `run` is told what to write of what happens.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use creel_traffic::network::Network;
use creel_traffic::output::{Edges, Events, Fcd, Filter, Report, Table};
use creel_traffic::sim::Simulation;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Files of what happens, and which part of it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output (.gz is packed)")]
pub struct Reports {
    /// MATSim's events
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// SUMO's edge data: means by road and interval
    #[arg(long, value_name = "FILE")]
    edge_data: Option<PathBuf>,
    /// SUMO's floating car data: where each car is, each second
    #[arg(long, value_name = "FILE")]
    fcd: Option<PathBuf>,
    /// Events as CSV
    #[arg(long, value_name = "FILE")]
    events_csv: Option<PathBuf>,
    /// The intervals of edge data, in seconds
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    interval: u32,
    /// Only what happens from this second on
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=3_000_000))]
    from: u32,
    /// Only what happens before this second
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=3_000_000))]
    until: Option<u32>,
    /// Only on roads that begin in this part of the map
    #[arg(long, value_name = "W,S,E,N", value_parser = region, allow_hyphen_values = true)]
    region: Option<[f64; 4]>,
    /// Only each Nth car
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

fn region(text: &str) -> Result<[f64; 4], String> {
    let values: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let values = values.map_err(|_| "not four numbers: WEST,SOUTH,EAST,NORTH")?;
    values
        .try_into()
        .map_err(|_| "not four numbers: WEST,SOUTH,EAST,NORTH".into())
}

/// A file that becomes one under its name when it is whole.
struct Opened {
    path: PathBuf,
    part: PathBuf,
    report: Box<dyn Report>,
    /// To sync it at the end.
    file: File,
}

/// The files that are being written. Those not finished are removed.
pub struct Writing {
    files: Vec<Opened>,
    filter: Filter,
}

impl Reports {
    /// Opens all files; none under its own name yet.
    pub fn open(&self) -> anyhow::Result<Writing> {
        let filter = Filter {
            from_ms: self.from * 1000,
            until_ms: self.until.map_or(u32::MAX, |until| until * 1000),
            region: self.region,
            every: self.every,
        };
        let mut writing = Writing {
            files: Vec::new(),
            filter,
        };
        let interval = self.interval * 1000;
        writing.open(self.events.as_deref(), |to| Box::new(Events::new(to)))?;
        writing.open(self.edge_data.as_deref(), |to| {
            Box::new(Edges::new(to, interval))
        })?;
        writing.open(self.fcd.as_deref(), |to| Box::new(Fcd::new(to, 1000)))?;
        writing.open(self.events_csv.as_deref(), |to| Box::new(Table::new(to)))?;
        Ok(writing)
    }
}

impl Writing {
    fn open(
        &mut self,
        path: Option<&Path>,
        make: impl FnOnce(Box<dyn Write>) -> Box<dyn Report>,
    ) -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let part = super::part_of(path);
        let opened = || -> io::Result<(File, Box<dyn Write>)> {
            let file = File::create(&part)?;
            let stream = BufWriter::with_capacity(1 << 20, file.try_clone()?);
            let packed = path.extension().is_some_and(|extension| extension == "gz");
            let to: Box<dyn Write> = if packed {
                Box::new(GzEncoder::new(stream, Compression::fast()))
            } else {
                Box::new(stream)
            };
            Ok((file, to))
        };
        let (file, to) = opened().with_context(|| path.display().to_string())?;
        self.files.push(Opened {
            path: path.to_owned(),
            part,
            report: make(to),
            file,
        });
        Ok(())
    }

    /// Whether anything is to be written.
    pub fn any(&self) -> bool {
        !self.files.is_empty()
    }

    /// Writes what happened since the last time.
    pub fn take(&mut self, simulation: &mut Simulation) -> anyhow::Result<()> {
        if !self.any() {
            return Ok(());
        }
        let mut happenings = simulation.happenings();
        let network = simulation.network();
        happenings.retain(|happening| self.filter.wants(network, happening));
        let until = simulation.now_ms().min(self.filter.until_ms);
        for file in &mut self.files {
            file.report
                .take(network, &happenings, until)
                .with_context(|| file.path.display().to_string())?;
        }
        Ok(())
    }

    /// Ends all files, and gives them their names.
    pub fn finish(mut self, network: &Network) -> anyhow::Result<()> {
        for Opened {
            path,
            part,
            mut report,
            file,
        } in self.files.drain(..)
        {
            let written = report.finish(network).and_then(|()| {
                // What packs writes its end when it is dropped; sync tells of a disk that is full.
                drop(report);
                file.sync_all()?;
                fs::rename(&part, &path)
            });
            if written.is_err() {
                let _ = fs::remove_file(&part);
            }
            written.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        for file in &self.files {
            // A file that is not whole is of no use; there is nobody to tell that it stays.
            let _ = fs::remove_file(&file.part);
        }
    }
}
