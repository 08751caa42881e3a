//! `creel-traffic run`: runs a simulation from beginning to end and prints a summary.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use creel::{Pool, Wait};
use creel_console::{Align, Common, Exit, Format, Interrupt, Knobs, Table, output};
use creel_traffic::sim::{Simulation, TICK_MS};
use serde::Serialize;

use super::incidents::Incidents;
use super::reports::{OpenReports, ReportFlags};
use super::scene::{Scene, Start, UnusedParts};
use super::{Steps, document, output_file, seconds};

const EXAMPLES: &str = "\
Examples:
  creel-traffic run --city 100x100 --cars 50000 --seconds 1800 --snapshot half.creel
  creel-traffic run --city 100x100 --resume half.creel --seconds 1800
          continue that run; together they give the same result as one run of an hour
  creel-traffic run --network berlin.osm.pbf --demand trips.rou.xml --seconds 7200 --edge-data edges.xml
          simulate two hours of SUMO demand on an OpenStreetMap network";

/// Run a simulation and print a summary
///
/// Exit codes: 0 success, 1 a file cannot be read or written, 2 wrong usage, 65 invalid data, 130
/// interrupted, 143 terminated. After an interrupt, the snapshot and the summary are still written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    scene: Scene,
    /// Simulate for TIME, for example 2h or 90m. A number without a unit is in seconds
    #[arg(long, help_heading = "Simulation", value_name = "TIME", default_value_t = 3600, value_parser = seconds::<0, 2_000_000>)]
    seconds: u32,
    /// Write the state at the end of the run to FILE, so that --resume can continue from it
    #[arg(long, help_heading = "Simulation", value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Also write the snapshot each time that TIME has been simulated, so that you can resume after
    /// a crash. A number without a unit is in seconds
    #[arg(long, help_heading = "Simulation", value_name = "TIME", requires = "snapshot", value_parser = seconds::<1, { u32::MAX }>)]
    snapshot_every: Option<u32>,
    /// Close and change roads by the time table in FILE. Each line begins with a time in seconds
    /// and the name of a road, for example `3600,main,close`, `4200,main,open`,
    /// `600,bridge,capacity,900` (cars per hour) or `600,bridge,speed,30` (km/h). Cars that wanted
    /// to use a closed road take another way, if there is one
    #[arg(long, help_heading = "Simulation", value_name = "FILE")]
    incidents: Option<PathBuf>,
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    reports: ReportFlags,
    #[command(flatten)]
    knobs: Knobs,
}

/// The summary that is printed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    ticks: u32,
    cars: usize,
    links: usize,
    junctions: usize,
    moving: i64,
    waiting: i64,
    idle: i64,
    arrived: u64,
    begun: u64,
    stepped_aside: u64,
    rerouted: u64,
    gridlocked_share: f64,
    crossings: u64,
    hash: String,
    seconds: f64,
    cpu_seconds: f64,
    setup_seconds: f64,
    simulated_seconds: f64,
    real_time_ratio: f64,
    ticks_per_second: f64,
    vehicle_seconds: f64,
    vehicle_seconds_per_second: f64,
    crossings_per_second: f64,
    mean_speed_share: Option<f64>,
    mean_delay_s: Option<f64>,
    bytes_per_link: Option<f64>,
    bytes_per_car: Option<f64>,
    workers: usize,
    window_ticks: u32,
    peak_rss_bytes: u64,
}

impl Run {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        // A run may overwrite the snapshot that it resumes from, because it has read the snapshot
        // completely by then. Therefore that file does not count as an input.
        let goes_on = self.start.file().filter(|_| self.snapshot.is_none());
        let incidents = self.incidents.as_deref();
        let read = self.scene.files().chain(goes_on).chain(incidents);
        let read = read.chain(self.reports.inputs());
        output_file::check_distinct(self.reports.files().chain(self.snapshot.as_deref()), read)?;
        self.snapshot
            .as_deref()
            .map_or(Ok(()), output_file::check)?;
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
        let begun = Instant::now();
        let pool = self
            .knobs
            .apply(Pool::builder().wait(Wait::Adaptive))
            .build()?;
        let start = || self.start.simulation(&self.scene, &pool, common.quiet);
        let (mut simulation, names) = super::run_interruptible(&interrupt, start)?;
        let setup_seconds = begun.elapsed().as_secs_f64();
        super::check_end(&simulation, self.seconds)?;
        let before = (simulation.vehicle_seconds(), simulation.tally().crossings);
        let begun = (Instant::now(), cpu_seconds());
        let mut open_reports = self
            .reports
            .open(names, &simulation, &self.scene, common.quiet)?;
        simulation.record_events(open_reports.any());
        let ticks_run = self.advance(
            &mut simulation,
            &pool,
            &interrupt,
            common,
            &mut open_reports,
        )?;
        open_reports.finish(simulation.network())?;
        let (seconds, cpu) = (begun.0.elapsed().as_secs_f64(), cpu_seconds() - begun.1);
        if let Some(path) = &self.snapshot {
            save(&simulation, path)?;
        }
        let summary = summary(
            &simulation,
            &pool,
            ticks_run,
            [seconds, cpu, setup_seconds],
            before,
        );
        let unused = self.scene.unused_parts().clone();
        print(summary, unused, common)?;
        interrupt.check()?;
        Ok(Exit::Done)
    }

    /// Runs the simulation and returns the number of ticks that were run.
    fn advance(
        &self,
        simulation: &mut Simulation,
        pool: &Pool,
        interrupt: &Interrupt,
        common: &Common,
        open_reports: &mut OpenReports,
    ) -> anyhow::Result<u32> {
        let incidents = match &self.incidents {
            Some(path) => Incidents::read(path, simulation.network(), simulation.now_ms())?,
            None => Incidents::default(),
        };
        let begun = Instant::now();
        let steps = Steps {
            incidents: incidents.into(),
            ticks: self.seconds,
            every: self.snapshot_every,
            interrupt,
            quiet: common.quiet,
        };
        steps.run(simulation, pool, |simulation, done, progress| {
            open_reports.take(simulation)?;
            let rate = f64::from(done) / begun.elapsed().as_secs_f64();
            progress.set_message(format!(
                "{rate:.0} x real time, {} moving",
                simulation.tally().moving
            ));
            match (&self.snapshot, self.snapshot_every) {
                (Some(path), Some(every)) if done % every == 0 => save(simulation, path),
                _ => Ok(()),
            }
        })
    }
}

fn save(simulation: &Simulation, path: &Path) -> anyhow::Result<()> {
    output_file::write(path, false, |to| simulation.save(to))
}

fn summary(
    simulation: &Simulation,
    pool: &Pool,
    ticks: u32,
    [seconds, cpu_seconds, setup_seconds]: [f64; 3],
    (vehicle_seconds, crossings): (f64, u64),
) -> Summary {
    let tally = simulation.tally();
    let all_seconds = simulation.vehicle_seconds();
    let vehicle_seconds = all_seconds - vehicle_seconds;
    let crossings_here = tally.crossings - crossings;
    let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    let (links, cars) = (simulation.network().links().len(), simulation.plans().len());
    let (road_bytes, car_bytes) = simulation.bytes();
    Summary {
        ticks,
        cars,
        links,
        junctions: simulation.network().junctions().len(),
        moving: tally.moving,
        waiting: tally.waiting_to_enter,
        idle: tally.idle + tally.done as i64,
        arrived: tally.arrived,
        begun: tally.begun,
        stepped_aside: tally.stepped_aside,
        rerouted: tally.rerouted,
        gridlocked_share: share(simulation.gridlocked() as f64, tally.moving as f64).unwrap_or(0.0),
        crossings: tally.crossings,
        hash: format!("{:016x}", simulation.hash(pool)),
        seconds,
        cpu_seconds,
        setup_seconds,
        simulated_seconds: f64::from(ticks),
        real_time_ratio: rate(f64::from(ticks)),
        ticks_per_second: rate(f64::from(ticks)),
        vehicle_seconds,
        vehicle_seconds_per_second: rate(vehicle_seconds),
        crossings_per_second: rate(crossings_here as f64),
        mean_speed_share: share(simulation.free_flow_seconds(), all_seconds),
        mean_delay_s: share(simulation.delay_seconds(), tally.begun as f64),
        bytes_per_link: share(road_bytes as f64, links as f64),
        bytes_per_car: share((car_bytes + simulation.plans().bytes()) as f64, cars as f64),
        workers: pool.workers(),
        window_ticks: simulation.window_ms() / TICK_MS,
        peak_rss_bytes: peak_rss_bytes(),
    }
}

/// Returns the CPU time that the process has used so far on all CPUs.
fn cpu_seconds() -> f64 {
    cpu_time::ProcessTime::now().as_duration().as_secs_f64()
}

/// Returns the peak resident memory of the process in bytes, or 0 if the system does not report it.
fn peak_rss_bytes() -> u64 {
    let status = creel_console::system::text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The summary with the unused parts of the input files, as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Body {
    #[serde(flatten)]
    summary: Summary,
    unused: UnusedParts,
}

fn print(summary: Summary, unused: UnusedParts, common: &Common) -> anyhow::Result<()> {
    match common.format {
        Format::Json => document(&Body { summary, unused })?,
        Format::Csv => output::csv([summary])?,
        Format::Text => output::text(&text(&summary))?,
    }
    Ok(())
}

/// Formats a number with its unit, or a dash if there is no number.
fn or_dash(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.1}{unit}"))
}

fn text(summary: &Summary) -> String {
    let Summary {
        ticks,
        cars,
        links,
        junctions,
        ..
    } = summary;
    let mut text =
        format!("{cars} cars, {links} roads, {junctions} junctions, {ticks} s simulated\n\n");
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
    let percent = |share: Option<f64>| or_dash(share.map(|share| share * 100.0), " %");
    let mut row = |name: &str, value: String| table.row([name, &value]);
    row("moving", summary.moving.to_string());
    row("waiting to enter", summary.waiting.to_string());
    row("idle", summary.idle.to_string());
    row("trips begun", summary.begun.to_string());
    row("trips ended", summary.arrived.to_string());
    row(
        "stepped aside (blocked for too long)",
        summary.stepped_aside.to_string(),
    );
    row("rerouted", summary.rerouted.to_string());
    row(
        "gridlocked (share of moving cars, blocked for a minute)",
        percent(Some(summary.gridlocked_share)),
    );
    row(
        "mean speed (share of free-flow speed)",
        percent(summary.mean_speed_share),
    );
    row(
        "mean delay per trip so far",
        or_dash(summary.mean_delay_s, " s"),
    );
    row(
        "simulated time ÷ real time",
        format!("{:.0}", summary.real_time_ratio),
    );
    row(
        "million vehicle-seconds per second",
        format!("{:.1}", summary.vehicle_seconds_per_second / 1e6),
    );
    row(
        "million crossings per second",
        format!("{:.2}", summary.crossings_per_second / 1e6),
    );
    row(
        "bytes per road, bytes per car with its plan",
        format!(
            "{}, {}",
            or_dash(summary.bytes_per_link, ""),
            or_dash(summary.bytes_per_car, "")
        ),
    );
    row(
        "wall seconds, CPU seconds",
        format!("{:.2}, {:.2}", summary.seconds, summary.cpu_seconds),
    );
    row("hash", summary.hash.clone());
    text.push_str(&table.text());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-traffic-run",
            schemars::schema_for!(creel_console::Document<Body>),
        );
    }
}
