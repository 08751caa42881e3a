//! `creel-traffic convert`: roads and demand from one format into another.

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
  creel-traffic convert --city 30x30 --cars 5000 --demand gravity --roads-to city.net.xml --demand-to city.rou.xml
          a city and its demand for SUMO: sumo-gui -n city.net.xml -r city.rou.xml";

/// Write roads and demand in other formats
///
/// A file's name tells its format. Roads: .net.xml is SUMO's, other .xml MATSim's, .gr DIMACS,
/// .tntp TNTP. Demand: .rou.xml is SUMO's, other .xml MATSim's, .tntp a table. .gz is packed. Routes
/// are written as they were read or found. What a format has no place for is told and left out.
///
/// SUMO's net has no lanes inside junctions, which its mesoscopic model does not look at. For the
/// microscopic one `netconvert -s city.net.xml -o inner.net.xml` adds them: else cars collide there.
///
/// Exit codes: 0 done, 1 a file cannot be read or written, 2 usage, 65 bad data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    scene: Scene,
    /// Write the roads to a file
    #[arg(long, value_name = "FILE", required_unless_present = "demand_to")]
    roads_to: Option<PathBuf>,
    /// Write the demand to a file
    #[arg(long, value_name = "FILE")]
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
        let network = self.scene.network(&pool)?;
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
            if network.controlled() && !format.keeps_control() {
                note(
                    "creel-traffic: lights, stops and priorities are left out: the format has none\n",
                );
            }
            let links = network.links();
            let differ = links
                .iter()
                .any(|road| road.speed_mm_s != links[0].speed_mm_s);
            if differ && !format.keeps_speeds() {
                note("creel-traffic: speeds are left out: the format has lengths only\n");
            }
            if links.iter().any(|road| road.lanes > 1) && !format.keeps_lanes() {
                note("creel-traffic: lanes are left out: the format has none\n");
            }
            if network.has_coordinates() && !format.keeps_lanes() {
                note(
                    "creel-traffic: the junctions' places are left out, so there is no map of it\n",
                );
            }
        }
        if let Some((path, format)) = demand_to {
            let (plans, names) = self.scene.plans(&network, &pool, common.quiet)?;
            output_file::write(path, true, |to| {
                demand::plans(&network, &plans, &names, format, to)
            })?;
            let stay = (0..plans.len() as u32)
                .flat_map(|car| plans.trips(&network, car))
                .filter(|(_, links)| links.is_empty())
                .count();
            if stay > 0 {
                note(&format!(
                    "creel-traffic: {stay} trips that go nowhere are left out\n"
                ));
            }
            if format == DemandFormat::Tntp {
                note(
                    "creel-traffic: ways and times are left out: a table has numbers of trips only\n",
                );
            }
            if plans.any_repeats() {
                note(
                    "creel-traffic: who drives for ever does so once there: no format can say it\n",
                );
            }
        }
        Ok(Exit::Done)
    }
}

/// A file's format by its name.
fn known<T>(
    path: Option<&Path>,
    format: impl Fn(&Path) -> Option<T>,
) -> anyhow::Result<Option<(&Path, T)>> {
    let Some(path) = path else { return Ok(None) };
    match format(path) {
        Some(format) => Ok(Some((path, format))),
        None => Err(usage(format!(
            "{}: its name tells no format",
            path.display()
        ))),
    }
}
