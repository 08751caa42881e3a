//! The flags that select which reports `run` writes and what they contain. We open all files before
//! the run starts, so that you see an error at once.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use creel_traffic::network::{Ms, Names, Network};
use creel_traffic::output::{
    Detector, Detectors, Edges, Events, Fcd, Filter, Kind, Labels, Report, Table, Trips, Turns,
    detectors,
};
use creel_traffic::sim::{Event, Simulation};

use super::output_file::{OutputFile, cannot_write};
use super::scene::Scene;
use super::seconds;

/// The report files and the filters that select their content.
#[derive(Args, Debug)]
#[command(next_help_heading = "Reports (a name with .gz compresses)")]
pub struct ReportFlags {
    /// Write MATSim events to FILE
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write SUMO edge data to FILE: for example the mean speed of each road in each interval
    #[arg(long, value_name = "FILE")]
    edge_data: Option<PathBuf>,
    /// Write SUMO floating car data (FCD) to FILE: the position of each car at each time step. A
    /// waiting car is at its place in the queue
    #[arg(long, value_name = "FILE")]
    fcd: Option<PathBuf>,
    /// Write SUMO trip information to FILE: departure, arrival, length, waiting time and lost time of
    /// each trip that has ended
    #[arg(long, value_name = "FILE")]
    tripinfo: Option<PathBuf>,
    /// Write turn counts to FILE as SUMO edge relations: the number of cars from each road to each
    /// next road, per interval
    #[arg(long, value_name = "FILE")]
    turn_counts: Option<PathBuf>,
    /// Read detectors from FILE, one of SUMO's additional files. Only its induction loops (E1) and
    /// lane area detectors (E2) are used
    #[arg(long, value_name = "FILE")]
    detectors: Option<PathBuf>,
    /// Write the counts of all induction loops (E1) to FILE
    #[arg(long, value_name = "FILE", requires = "detectors")]
    e1: Option<PathBuf>,
    /// Write the counts of all lane area detectors (E2) to FILE
    #[arg(long, value_name = "FILE", requires = "detectors")]
    e2: Option<PathBuf>,
    /// Write all events to FILE as CSV
    #[arg(long, value_name = "FILE")]
    events_csv: Option<PathBuf>,
    /// Use intervals of TIME in edge data and turn counts. A number without a unit is in seconds
    #[arg(long, value_name = "TIME", default_value_t = 300, value_parser = seconds::<1, 1_000_000>)]
    interval: u32,
    /// Report only what happens at or after TIME in the simulation. A number without a unit is in
    /// seconds
    #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = seconds::<0, 3_000_000>)]
    from: u32,
    /// Report only what happens before TIME in the simulation. A number without a unit is in
    /// seconds [default: the end of the run]
    #[arg(long, value_name = "TIME", value_parser = seconds::<0, 3_000_000>)]
    until: Option<u32>,
    /// Report only roads that begin inside this part of the map. Give its western, southern,
    /// eastern and northern edges in the unit of the network's coordinates, which is degrees or
    /// metres
    #[arg(long, value_name = "W,S,E,N", value_parser = region, allow_hyphen_values = true)]
    region: Option<[f64; 4]>,
    /// Report only roads with at least N lanes
    #[arg(long, value_name = "N", default_value_t = 0)]
    lanes: u8,
    /// Report only roads with a speed limit of at least KM/H
    #[arg(long, value_name = "KM/H", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    speed: u32,
    /// Write the positions of floating car data (--fcd) once per TIME. A number without a unit is
    /// in seconds
    #[arg(long, value_name = "TIME", default_value_t = 1, value_parser = seconds::<1, 1_000_000>)]
    fcd_every: u32,
    /// Report only every Nth car
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

fn region(text: &str) -> Result<[f64; 4], String> {
    let values: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let values = values.map_err(|_| "expected four numbers: WEST,SOUTH,EAST,NORTH")?;
    let region = <[f64; 4]>::try_from(values)
        .map_err(|_| "expected four numbers: WEST,SOUTH,EAST,NORTH".to_owned())?;
    let [west, south, east, north] = region;
    if west < east && south < north {
        Ok(region)
    } else {
        Err("the region is empty: WEST must be less than EAST, and SOUTH less than NORTH".into())
    }
}

/// A report file that is being written.
struct OpenReport {
    path: PathBuf,
    report: Box<dyn Report>,
    file: OutputFile,
}

/// All report files that are being written.
pub struct OpenReports {
    files: Vec<OpenReport>,
    filter: Filter,
    /// The simulated time at which this run begins.
    begin_ms: Ms,
    names: Names,
}

impl ReportFlags {
    /// Returns the paths of all requested report files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.events, &self.edge_data, &self.fcd, &self.tripinfo];
        let more = [&self.events_csv, &self.turn_counts, &self.e1, &self.e2];
        let files = files.into_iter().chain(more);
        files.filter_map(|file| file.as_deref())
    }

    /// Returns the paths of all files that are read.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.detectors.as_deref().into_iter()
    }

    /// Opens all files. They get their final names when they are complete. If the simulation
    /// resumes from a snapshot, the reports begin with the cars that are on the roads at that time.
    pub fn open(
        &self,
        names: Names,
        simulation: &Simulation,
        scene: &Scene,
        quiet: bool,
    ) -> anyhow::Result<OpenReports> {
        if self.until.is_some_and(|until| until <= self.from) {
            return Err(super::usage(
                "the reports would be empty: use a time for --until that is later than --from",
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
        open_reports.open(self.tripinfo.as_deref(), |to| {
            Box::new(Trips::new(to, from))
        })?;
        open_reports.open(self.turn_counts.as_deref(), |to| {
            Box::new(Turns::new(to, from, interval))
        })?;
        if let Some(path) = &self.detectors {
            let cannot_read = || format!("cannot read {}", path.display());
            let text = std::fs::read_to_string(path).with_context(cannot_read)?;
            let read = detectors(&text, simulation.network());
            let read = read.map_err(|error| super::bad_data(format!("{}: {error}", cannot_read())));
            let (all, unused) = read?;
            scene.report_unused(path, &unused, quiet)?;
            let is_loop = |one: &Detector| one.kind == Kind::Loop;
            let (loops, areas): (Vec<_>, Vec<_>) = all.into_iter().partition(is_loop);
            for (file, all, kind) in [(&self.e1, loops, "E1"), (&self.e2, areas, "E2")] {
                if file.is_some() && all.is_empty() {
                    let reason = format!(
                        "the file {} has no detector of the kind {kind}",
                        path.display()
                    );
                    return Err(super::bad_data(reason));
                }
                open_reports.open(file.as_deref(), |to| {
                    Box::new(Detectors::new(to, all, from, physics))
                })?;
            }
        }
        open_reports.open(self.events_csv.as_deref(), |to| Box::new(Table::new(to)))?;
        if now > 0 && open_reports.any() {
            open_reports.write(simulation, simulation.vehicles_on_links(), now)?;
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
        let (file, to) = opened().with_context(|| cannot_write(path))?;
        self.files.push(OpenReport {
            path: path.to_owned(),
            report: make(to),
            file,
        });
        Ok(())
    }

    /// Returns whether any report is being written.
    pub fn any(&self) -> bool {
        !self.files.is_empty()
    }

    /// Writes everything that has happened since the last call.
    pub fn take(&mut self, simulation: &mut Simulation) -> anyhow::Result<()> {
        if !self.any() {
            return Ok(());
        }
        let events = simulation.take_events();
        self.write(simulation, events, simulation.now_ms())
    }

    /// Filters `events`, which happened before `now_ms`, and writes them to all reports.
    fn write(
        &mut self,
        simulation: &Simulation,
        mut events: Vec<Event>,
        now_ms: Ms,
    ) -> anyhow::Result<()> {
        let (filter, network) = (self.filter, simulation.network());
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
            simulation: Some(simulation),
        };
        for file in &mut self.files {
            let wanted = match &file.report {
                report if report.needs_all_vehicles() => &events[..],
                report if report.needs_history() => &picked[..],
                _ => &picked[begin..],
            };
            file.report
                .take(labels, wanted, until)
                .with_context(|| cannot_write(&file.path))?;
        }
        Ok(())
    }

    /// Completes all files and gives them their final names.
    pub fn finish(mut self, network: &Network) -> anyhow::Result<()> {
        let names = std::mem::take(&mut self.names);
        let labels = Labels {
            network,
            cars: &names,
            simulation: None,
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
            written.with_context(|| cannot_write(&path))?;
        }
        Ok(())
    }
}
