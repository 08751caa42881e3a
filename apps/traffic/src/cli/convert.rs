//! `creel-traffic convert`: converts a road network and demand from one format into another.

use std::path::{Path, PathBuf};

use clap::Args;
use creel::{Pool, Wait};
use creel_console::{Common, Exit, Knobs, output};
use creel_traffic::demand::write::{self as demand, Format as DemandFormat};
use creel_traffic::network::write::{self as roads, Format as RoadsFormat};

use super::scene::Scene;
use super::{output_file, usage};

const EXAMPLES: &str = "\
Examples:
  creel-traffic convert --network berlin.osm.pbf --roads-to berlin.net.xml.gz
          convert an OpenStreetMap extract into a SUMO network
  creel-traffic convert --city 30x30 --cars 5000 --demand gravity --roads-to city.net.xml --demand-to city.rou.xml
          write a generated city for SUMO; run it with: sumo-gui -n city.net.xml -r city.rou.xml";

/// Convert a road network and demand into another format
///
/// The file name selects the format. Networks: .net.xml is SUMO, any other .xml is MATSim, .gr is
/// DIMACS, .tntp is TNTP. Demand: .rou.xml is SUMO, any other .xml is MATSim, .tntp is a TNTP trip
/// table. A name that ends with .gz selects gzip compression. Routes are written as they were read
/// or computed. A note on stderr lists everything that the format cannot store.
///
/// The SUMO network has no lanes inside junctions. SUMO's mesoscopic model does not need them. In
/// the microscopic model cars collide without them, so add them first: `netconvert -s city.net.xml
/// -o inner.net.xml`.
///
/// Exit codes: 0 success, 1 a file cannot be read or written, 2 wrong usage, 65 invalid data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    scene: Scene,
    /// Write the road network to FILE
    #[arg(
        long,
        help_heading = "Output",
        value_name = "FILE",
        required_unless_present = "demand_to"
    )]
    roads_to: Option<PathBuf>,
    /// Write the demand to FILE
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    demand_to: Option<PathBuf>,
    #[command(flatten)]
    knobs: Knobs,
}

impl Convert {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let roads_to = known(self.roads_to.as_deref(), RoadsFormat::of)?;
        let demand_to = known(self.demand_to.as_deref(), DemandFormat::of)?;
        let outputs = [&self.roads_to, &self.demand_to].into_iter();
        let outputs = outputs.filter_map(|path| path.as_deref());
        output_file::check_distinct(outputs, self.scene.files())?;
        let builder = Pool::builder().wait(Wait::Adaptive);
        let pool = self.knobs.apply(builder).build()?;
        let network = self.scene.network(&pool, common.quiet)?;
        let physics = self.scene.physics();
        let note = |text: &str| {
            if !common.quiet {
                output::note(text);
            }
        };
        if let Some((path, format)) = roads_to {
            let unit_mm = self.scene.unit_mm();
            output_file::write(path, true, |to| {
                roads::network(&network, &physics, unit_mm, format, to)
            })?;
            let note = |text: &str| note(&format!("creel-traffic: {}: {text}\n", path.display()));
            if network.controlled() && !format.keeps_control() {
                note(
                    "left out traffic lights, stops and priorities, because the format cannot store them",
                );
            }
            let links = network.links();
            let differ = links
                .iter()
                .any(|road| road.speed_mm_s != links[0].speed_mm_s);
            if differ && !format.keeps_speeds() {
                note("left out the speed limits, because the format can store only lengths");
            }
            if links.iter().any(|road| road.lanes > 1) && !format.keeps_lanes() {
                note("left out the number of lanes, because the format cannot store it");
            }
            if network.has_coordinates() && !format.keeps_lanes() {
                note("left out the coordinates, so no map can be drawn from this file");
            }
        }
        if let Some((path, format)) = demand_to {
            let (plans, names) = self.scene.plans(&network, &pool, common.quiet)?;
            output_file::write(path, true, |to| {
                demand::plans(&network, &plans, &names, format, to)
            })?;
            let note = |text: &str| note(&format!("creel-traffic: {}: {text}\n", path.display()));
            let stay = (0..plans.len() as u32)
                .flat_map(|car| plans.trips(&network, car))
                .filter(|(_, links)| links.is_empty())
                .count();
            if stay > 0 {
                note(&format!("left out {stay} trips that end where they begin"));
            }
            if format == DemandFormat::Tntp {
                note(
                    "left out routes and departure times, because a trip table stores only numbers of trips",
                );
            }
            if plans.any_repeats() {
                note(
                    "wrote repeating plans as a single round, because no format can store the repetition",
                );
            }
        }
        Ok(Exit::Done)
    }
}

/// Returns a file's path and the format that its name selects.
fn known<T>(
    path: Option<&Path>,
    format: impl Fn(&Path) -> Option<T>,
) -> anyhow::Result<Option<(&Path, T)>> {
    let Some(path) = path else { return Ok(None) };
    match format(path) {
        Some(format) => Ok(Some((path, format))),
        None => Err(usage(format!(
            "cannot select a format for {}: unknown file name ending (--help lists the known ones)",
            path.display()
        ))),
    }
}
