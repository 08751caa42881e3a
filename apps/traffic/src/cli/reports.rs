//! The flags by which `run` is told what to write of what happens.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use creel_traffic::network::{Ms, Names, Network};
use creel_traffic::output::{Edges, Events, Fcd, Filter, Labels, Report, Table};
use creel_traffic::sim::{Event, Simulation};

use super::output_file::OutputFile;

/// Files of what happens, and which part of it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output (.gz is packed)")]
pub struct ReportFlags {
    /// MATSim's events
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// SUMO's edge data: means by road and interval
    #[arg(long, value_name = "FILE")]
    edge_data: Option<PathBuf>,
    /// SUMO's floating car data: where each car is, again and again; who waits stands in its place
    /// in the queue
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
    /// Only on roads of at least so many lanes
    #[arg(long, value_name = "N", default_value_t = 0)]
    lanes: u8,
    /// Only on roads where one may drive at least so fast
    #[arg(long, value_name = "KM/H", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    speed: u32,
    /// From one time step of floating car data to the next, in seconds
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fcd_every: u32,
    /// Only each Nth car
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

fn region(text: &str) -> Result<[f64; 4], String> {
    let values: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let values = values.map_err(|_| "not four numbers: WEST,SOUTH,EAST,NORTH")?;
    let region = <[f64; 4]>::try_from(values)
        .map_err(|_| "not four numbers: WEST,SOUTH,EAST,NORTH".to_owned())?;
    let [west, south, east, north] = region;
    if west < east && south < north {
        Ok(region)
    } else {
        Err("nothing lies in it: WEST below EAST, SOUTH below NORTH".into())
    }
}

/// A file that is being written.
struct OpenReport {
    path: PathBuf,
    report: Box<dyn Report>,
    file: OutputFile,
}

/// The files that are being written.
pub struct OpenReports {
    files: Vec<OpenReport>,
    filter: Filter,
    /// When the run begins.
    begin_ms: Ms,
    names: Names,
}

impl ReportFlags {
    /// The files that are asked for.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.events, &self.edge_data, &self.fcd, &self.events_csv];
        files.into_iter().filter_map(|file| file.as_deref())
    }

    /// Opens all files; none under its own name yet. They begin with who is on the roads of a
    /// simulation that goes on.
    pub fn open(&self, names: Names, simulation: &Simulation) -> anyhow::Result<OpenReports> {
        if self.until.is_some_and(|until| until <= self.from) {
            return Err(super::usage(
                "nothing happens from --from on and before --until",
            ));
        }
        let filter = Filter {
            from_ms: self.from * 1000,
            until_ms: self.until.map_or(u32::MAX, |until| until * 1000),
            region: self.region,
            lanes: self.lanes,
            speed_mm_s: self.speed * 10_000 / 36,
            every: self.every,
        };
        let now = simulation.now_ms();
        let mut open_reports = OpenReports {
            files: Vec::new(),
            filter,
            begin_ms: now,
            names,
        };
        let (from, interval) = (filter.from_ms.max(now), self.interval * 1000);
        open_reports.open(self.events.as_deref(), |to| Box::new(Events::new(to, from)))?;
        open_reports.open(self.edge_data.as_deref(), |to| {
            Box::new(Edges::new(to, from, interval))
        })?;
        let (every, physics) = (self.fcd_every * 1000, *simulation.physics());
        open_reports.open(self.fcd.as_deref(), |to| {
            Box::new(Fcd::new(to, from, every, physics, self.every))
        })?;
        open_reports.open(self.events_csv.as_deref(), |to| Box::new(Table::new(to)))?;
        if now > 0 && open_reports.any() {
            open_reports.write(simulation.network(), simulation.vehicles_on_links(), now)?;
        }
        Ok(open_reports)
    }
}

impl OpenReports {
    fn open(
        &mut self,
        path: Option<&Path>,
        make: impl FnOnce(Box<dyn Write>) -> Box<dyn Report>,
    ) -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let opened = || -> io::Result<(OutputFile, Box<dyn Write>)> {
            let file = OutputFile::create(path)?;
            let to = Box::new(file.stream(true)?);
            Ok((file, to))
        };
        let (file, to) = opened().with_context(|| path.display().to_string())?;
        self.files.push(OpenReport {
            path: path.to_owned(),
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
        let events = simulation.take_events();
        self.write(simulation.network(), events, simulation.now_ms())
    }

    /// Writes what is wanted of what happened until `now_ms`.
    fn write(
        &mut self,
        network: &Network,
        mut events: Vec<Event>,
        now_ms: Ms,
    ) -> anyhow::Result<()> {
        let filter = self.filter;
        events.retain(|event| {
            event.at_ms < filter.until_ms && filter.matches_link(network, event.link)
        });
        let mut picked = events.clone();
        picked.retain(|event| filter.matches_vehicle(event.car));
        let from = |event: &Event| event.at_ms < filter.from_ms.max(self.begin_ms);
        let begin = picked.partition_point(from);
        let until = now_ms.min(filter.until_ms);
        let labels = Labels {
            network,
            cars: &self.names,
        };
        for file in &mut self.files {
            let wanted = match &file.report {
                report if report.needs_all_vehicles() => &events[..],
                report if report.needs_history() => &picked[..],
                _ => &picked[begin..],
            };
            file.report
                .take(labels, wanted, until)
                .with_context(|| file.path.display().to_string())?;
        }
        Ok(())
    }

    /// Ends all files, and gives them their names.
    pub fn finish(mut self, network: &Network) -> anyhow::Result<()> {
        let names = std::mem::take(&mut self.names);
        let labels = Labels {
            network,
            cars: &names,
        };
        for OpenReport {
            path,
            mut report,
            file,
        } in self.files.drain(..)
        {
            let written = report.finish(labels).and_then(|()| {
                drop(report);
                file.finish()
            });
            written.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
