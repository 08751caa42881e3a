//! `creel-traffic assign`: computes the static user equilibrium of a TNTP network.

use std::path::{Path, PathBuf};

use clap::Args;
use creel::Pool;
use creel_console::{Align, Common, Exit, Format, Knobs, Table, output};
use creel_traffic::assign::{Equilibrium, equilibrium};
use creel_traffic::network::read::tntp::{self, Tntp};
use creel_traffic::network::read::{self, ReadError};
use serde::Serialize;

use super::scene::{note, read_error};
use super::{bad_data, document};

const EXAMPLES: &str = "\
Examples:
  creel-traffic assign --network roads.tntp --trips trips.tntp
  creel-traffic assign --network roads.tntp --trips trips.tntp --gap 1e-4 --format csv
          stop at a larger gap, and print the flow and travel time of each link";

/// Compute the user equilibrium: flows at which no traveller has a quicker path
///
/// Reads a road network and a trip table in TNTP format. With --format csv, prints the flow and
/// travel time of each link.
///
/// Exit codes: 0 success, 1 the gap was not reached or a file cannot be read, 2 wrong usage, 65
/// invalid data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Assign {
    /// Read the road network from FILE (TNTP)
    #[arg(long, value_name = "FILE")]
    network: PathBuf,
    /// Read the trip table from FILE (TNTP)
    #[arg(long, value_name = "FILE")]
    trips: PathBuf,
    /// Stop when the relative gap is at most G. The relative gap is the share by which all trips
    /// together take longer than they would on the shortest paths
    #[arg(long, value_name = "G", default_value_t = 1e-7, value_parser = share)]
    gap: f64,
    /// Stop after N iterations, even if the gap is not reached
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    steps: u32,
    #[command(flatten)]
    knobs: Knobs,
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| *value >= 0.0)
        .ok_or_else(|| "expected a number of 0 or more".into())
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    links: usize,
    trips: f64,
    left_out: f64,
    objective: f64,
    gap: f64,
    steps: u32,
    total_time: f64,
}

#[derive(Serialize)]
struct Row {
    from: u32,
    to: u32,
    flow: f64,
    time: f64,
}

impl Assign {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let pool = self.knobs.apply(Pool::builder()).build()?;
        let network =
            Tntp::parse(&text(&self.network)?).map_err(|error| read_error(&self.network, error))?;
        let trips =
            tntp::trips(&text(&self.trips)?).map_err(|error| read_error(&self.trips, error))?;
        let unused = network.unused_by_assignment();
        if !unused.is_empty() {
            let file = self.network.display();
            note(
                common.quiet,
                &format!("{file}: not used: {}", unused.text()),
            );
        }
        let found = equilibrium(&pool, &network, &trips, self.gap, self.steps).map_err(bad_data)?;
        let total = trips.iter().map(|trip| trip.2).sum::<f64>();
        self.print(&network, total, &found, common)?;
        Ok(if found.gap <= self.gap {
            Exit::Done
        } else {
            Exit::SomeFailed
        })
    }

    fn print(
        &self,
        network: &Tntp,
        trips: f64,
        found: &Equilibrium,
        common: &Common,
    ) -> anyhow::Result<()> {
        let roads = || network.links.iter().zip(&found.flows);
        let summary = Summary {
            links: network.links.len(),
            trips,
            left_out: found.left_out,
            objective: found.objective,
            gap: found.gap,
            steps: found.steps,
            total_time: roads().map(|(link, &flow)| flow * link.time(flow)).sum(),
        };
        match common.format {
            Format::Json => document(&summary)?,
            Format::Csv => output::csv(roads().map(|(link, &flow)| Row {
                from: link.from + 1,
                to: link.to + 1,
                flow,
                time: link.time(flow),
            }))?,
            Format::Text => {
                let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
                table.row(["links".into(), summary.links.to_string()]);
                table.row(["trips".into(), format!("{}", summary.trips)]);
                table.row([
                    "trips left out (same zone, or no path)".into(),
                    format!("{}", summary.left_out),
                ]);
                table.row(["objective".into(), format!("{:.8}", summary.objective)]);
                table.row(["relative gap".into(), format!("{:.1e}", summary.gap)]);
                table.row(["iterations".into(), summary.steps.to_string()]);
                table.row([
                    "total travel time".into(),
                    format!("{:.4}", summary.total_time),
                ]);
                output::text(&table.text())?;
            }
        }
        Ok(())
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = read::bytes(path).map_err(|error| read_error(path, error))?;
    String::from_utf8(bytes).map_err(|_| read_error(path, ReadError::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-traffic-assign",
            schemars::schema_for!(creel_console::Document<Summary>),
        );
    }
}
