//! `creel-traffic draw`: draws the state of the simulation at one time as a picture.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Args;
use creel::{Pool, Wait};
use creel_console::{Common, Exit, Interrupt, Knobs};
use creel_traffic::output::Picture;

use super::scene::{Scene, Start};
use super::{Steps, output_file, seconds, usage};

const EXAMPLES: &str = "\
Examples:
  creel-traffic draw --city 100x100 --noise 30 --avenues 5 --cars 50000 --output city.png
  creel-traffic draw --network town.osm.pbf --cars 200000 --seconds 600 --output town.svg";

/// Draw a map of the roads, coloured by how full they are
///
/// Exit codes: 0 success, 1 a file cannot be read or written, 2 wrong usage, 65 invalid data, 130
/// interrupted (no picture is written).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Draw {
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    start: Start,
    /// Simulate for TIME before drawing, counted from the beginning or from the snapshot. A number
    /// without a unit is in seconds
    #[arg(long, help_heading = "Simulation", value_name = "TIME", default_value_t = 600, value_parser = seconds::<0, 2_000_000>)]
    seconds: u32,
    /// Make the picture PX pixels wide
    #[arg(long, help_heading = "Picture", value_name = "PX", default_value_t = 1600, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    width: u32,
    /// Write the picture to FILE (.png or .svg)
    #[arg(long, help_heading = "Picture", short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    knobs: Knobs,
}

impl Draw {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let kind = self.output.extension().and_then(OsStr::to_str);
        let kind = kind.map(str::to_lowercase).unwrap_or_default();
        if !["png", "svg"].contains(&&*kind) {
            let output = self.output.display();
            return Err(usage(format!(
                "cannot draw {output}: the name of a picture must end with .png or .svg"
            )));
        }
        output_file::check(&self.output)?;
        let interrupt = Interrupt::install()?;
        let builder = Pool::builder().wait(Wait::Adaptive);
        let pool = self.knobs.apply(builder).build()?;
        let start = || self.start.simulation(&self.scene, &pool, common.quiet);
        let (mut simulation, _) = super::run_interruptible(&interrupt, start)?;
        if !simulation.network().has_coordinates() {
            return Err(super::no_map());
        }
        super::check_end(&simulation, self.seconds)?;
        let steps = Steps {
            incidents: Default::default(),
            ticks: self.seconds,
            every: None,
            interrupt: &interrupt,
            quiet: common.quiet,
        };
        steps.run(&mut simulation, &pool, |_, _, _| Ok(()))?;
        interrupt.check()?;
        let network = simulation.network();
        let picture = Picture::new(network, self.width);
        let mut occupancy = Vec::new();
        simulation.occupancy(&mut occupancy);
        let full = |road: usize| {
            let storage = network.flow(road as u32, simulation.physics()).storage;
            f32::from(occupancy[road]) / f32::from(storage)
        };
        let bytes = match &*kind {
            "svg" => picture.svg(full).into_bytes(),
            _ => picture.png(full)?,
        };
        output_file::write(&self.output, false, |to| to.write_all(&bytes))?;
        Ok(Exit::Done)
    }
}
