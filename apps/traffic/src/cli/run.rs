//! `creel-traffic run`: a simulation from begin to end, and what became of it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use creel::{Pool, Wait};
use creel_console::{Align, Common, Exit, Format, Interrupt, Knobs, Table, output};
use creel_traffic::sim::{Simulation, TICK_MS};
use serde::Serialize;

use super::reports::{OpenReports, ReportFlags};
use super::scene::{Scene, Start};
use super::{Steps, document, output_file};

const EXAMPLES: &str = "\
Examples:
  creel-traffic run --city 100x100 --cars 50000 --seconds 3600
  creel-traffic run --network NY.gr.xz --cars 1000000 --demand gravity --again --seconds 900
  creel-traffic run --network berlin.osm.pbf --demand trips.rou.xml --seconds 7200 --edge-data edges.xml
  creel-traffic run --city 100x100 --cars 50000 --seconds 1800 --snapshot half.creel
  creel-traffic run --city 100x100 --resume half.creel --seconds 1800
          goes on where that ended";

/// Run a simulation, and tell what became of it
///
/// Exit codes: 0 done, 1 a file cannot be read or written, 2 usage, 65 bad data, 130 interrupted, 143
/// terminated (a snapshot, if one was asked for, is written then, too).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    scene: Scene,
    /// How long, in simulated seconds
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(0..=2_000_000))]
    seconds: u32,
    /// Write the state at the end to a file, to go on from
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write it also every so many simulated seconds
    #[arg(long, value_name = "N", requires = "snapshot", value_parser = clap::value_parser!(u32).range(1..))]
    snapshot_every: Option<u32>,
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    reports: ReportFlags,
    #[command(flatten)]
    knobs: Knobs,
}

/// What is printed.
#[derive(Clone, Debug, Serialize)]
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
        // A snapshot may take the place of the one that it goes on from.
        let goes_on = self.start.file().filter(|_| self.snapshot.is_none());
        let read = self.scene.files().chain(goes_on);
        output_file::check_distinct(self.reports.files().chain(self.snapshot.as_deref()), read)?;
        self.snapshot
            .as_deref()
            .map_or(Ok(()), output_file::check)?;
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
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
        let mut open_reports = self.reports.open(names, &simulation)?;
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
        print(&summary, common)?;
        interrupt.check()?;
        Ok(Exit::Done)
    }

    /// Runs it, and gives back how many ticks were run.
    fn advance(
        &self,
        simulation: &mut Simulation,
        pool: &Pool,
        interrupt: &Interrupt,
        common: &Common,
        open_reports: &mut OpenReports,
    ) -> anyhow::Result<u32> {
        let begun = Instant::now();
        let steps = Steps {
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

/// What the process has used of all CPUs.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The most memory that the process has had; 0 where the system does not tell.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn print(summary: &Summary, common: &Common) -> anyhow::Result<()> {
    match common.format {
        Format::Json => document(summary)?,
        Format::Csv => output::csv([summary])?,
        Format::Text => output::text(&text(summary))?,
    }
    Ok(())
}

/// A number with its unit, or that there is none.
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
        "stepped aside (no room for too long)",
        summary.stepped_aside.to_string(),
    );
    row("took another way", summary.rerouted.to_string());
    row(
        "of those moving, behind one without room for a minute",
        percent(Some(summary.gridlocked_share)),
    );
    row(
        "mean speed, of what the roads allow",
        percent(summary.mean_speed_share),
    );
    row("delay a trip, so far", or_dash(summary.mean_delay_s, " s"));
    row("times real time", format!("{:.0}", summary.real_time_ratio));
    row(
        "million vehicle-seconds a second",
        format!("{:.1}", summary.vehicle_seconds_per_second / 1e6),
    );
    row(
        "million crossings a second",
        format!("{:.2}", summary.crossings_per_second / 1e6),
    );
    row(
        "bytes a road, bytes a car with its plan",
        format!(
            "{}, {}",
            or_dash(summary.bytes_per_link, ""),
            or_dash(summary.bytes_per_car, "")
        ),
    );
    row(
        "seconds of the wall, of all CPUs",
        format!("{:.2}, {:.2}", summary.seconds, summary.cpu_seconds),
    );
    row("hash", summary.hash.clone());
    text.push_str(&table.text());
    text
}
