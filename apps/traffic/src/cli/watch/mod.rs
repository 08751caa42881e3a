//! `creel-traffic watch`: shows a simulation live on a web page with a map.
//!
//! The main thread owns the simulation and runs it. The HTTP threads (`answers.rs`) answer browsers
//! with the latest frame. The two sides share only that frame and the controls.

mod answers;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use creel::{Pool, Wait};
use creel_console::{Common, Exit, Interrupt, Knobs, http};
use creel_traffic::network::Network;
use creel_traffic::sim::{END_MS_MAX, Simulation, TICK_MS};

use super::scene::{Scene, Start};

const EXAMPLES: &str = "\
Examples:
  creel-traffic watch --city 100x100 --cars 50000
          then open the printed address in a browser
  creel-traffic watch --network town.osm.pbf --cars 500000 --port 8000 --speed 0
          start paused, on a port of your choice";

/// Show a simulation live on a web page
///
/// The server listens on the loopback address only, and prints the address of the page. Press
/// Ctrl-C to stop it.
///
/// Exit codes: 2 wrong usage, 65 invalid data, 75 the port is in use, 130 interrupted, 143
/// terminated.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Watch {
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    start: Start,
    /// Listen on PORT (0: any free port)
    #[arg(
        long,
        help_heading = "Page",
        value_name = "PORT",
        default_value_t = 7880
    )]
    port: u16,
    /// Start at N times real time (0: start paused)
    #[arg(long, help_heading = "Page", value_name = "N", default_value_t = 20)]
    speed: u32,
    #[command(flatten)]
    knobs: Knobs,
}

/// The state that the simulation thread and the HTTP threads share.
struct SharedState {
    /// The coordinates of both ends of each road. They never change.
    roads: Vec<u8>,
    control: Mutex<Control>,
    changed: Condvar,
    frame: Mutex<Arc<Vec<u8>>>,
    details: Vec<Detail>,
}

/// The details of a road, shown after a click on it.
#[derive(serde::Serialize)]
struct Detail {
    name: String,
    length_m: u32,
    speed_kmh: u32,
    lanes: u8,
    storage: u16,
}

#[derive(Clone, Copy)]
struct Control {
    playing: bool,
    /// The speed as a multiple of real time. 0 means as fast as possible.
    speed: u32,
    /// The number of ticks to run while the simulation is paused.
    steps: u32,
    /// The number of control requests so far.
    requests: u32,
}

impl Watch {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
        // We open the port before we load the network. If the port is in use, you see the error at
        // once.
        let listener = http::listen(self.port)?;
        let pool = self
            .knobs
            .apply(Pool::builder().wait(Wait::Adaptive))
            .build()?;
        let start = || self.start.simulation(&self.scene, &pool, common.quiet);
        let (mut simulation, _) = super::run_interruptible(&interrupt, start)?;
        if !simulation.network().has_coordinates() {
            return Err(super::no_map());
        }
        let control = Control {
            playing: self.speed > 0,
            speed: self.speed.max(1),
            steps: 0,
            requests: 0,
        };
        let shared_state = Arc::new(shared_state(&simulation, control));
        publish_frame(&shared_state, &simulation, 0, &mut Vec::new());
        let address = listener.local_addr()?;
        let server_state = Arc::clone(&shared_state);
        std::thread::Builder::new()
            .name("page".into())
            .spawn(move || http::serve(&listener, move |request| server_state.answer(request)))?;
        if !common.quiet {
            eprintln!("creel-traffic: http://{address}/");
        }
        run_until_interrupted(&mut simulation, &pool, &shared_state, &interrupt);
        interrupt.check()?;
        Ok(Exit::Done)
    }
}

/// Runs the simulation as the controls demand, until the process is interrupted.
fn run_until_interrupted(
    simulation: &mut Simulation,
    pool: &Pool,
    shared_state: &SharedState,
    interrupt: &Interrupt,
) {
    const FRAME: Duration = Duration::from_millis(50);
    let mut occupancy = Vec::new();
    let (mut ticks_owed, mut steps, mut applied) = (0.0, 0, 0);
    let mut last = Instant::now();
    while !interrupt.requested() {
        let control = {
            let control = shared_state
                .control
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let waits = |control: &mut Control| {
                !control.playing && steps == 0 && control.requests == applied
            };
            let (mut control, _) = shared_state
                .changed
                .wait_timeout_while(control, FRAME * 4, waits)
                .unwrap_or_else(PoisonError::into_inner);
            let now = *control;
            control.steps = 0;
            now
        };
        steps += control.steps;
        if !control.playing && steps == 0 && control.requests == applied {
            continue;
        }
        applied = control.requests;
        let begun = Instant::now();
        let passed = (begun - last).min(FRAME * 4).as_secs_f64();
        last = begun;
        if control.playing {
            ticks_owed = (ticks_owed + passed * f64::from(control.speed)).min(1000.0);
        }
        let at_once = control.playing && control.speed == 0;
        let mut ticks = steps
            + if at_once {
                u32::MAX / 2
            } else {
                ticks_owed as u32
            };
        ticks_owed -= ticks_owed.floor();
        // We run one window at a time, and stop when the frame is over, so that the page stays
        // responsive. The next frame runs the ticks that remain.
        while ticks > 0
            && begun.elapsed() < FRAME
            && simulation.now_ms() < END_MS_MAX - 60 * TICK_MS
        {
            let now = ticks.min((simulation.window_ms() / TICK_MS).max(1));
            simulation.run(pool, now);
            ticks -= now;
            steps = steps.saturating_sub(now);
        }
        publish_frame(shared_state, simulation, applied, &mut occupancy);
        if control.playing {
            std::thread::sleep(FRAME.saturating_sub(begun.elapsed()));
        }
    }
}

fn shared_state(simulation: &Simulation, control: Control) -> SharedState {
    let network = simulation.network();
    let places = network.coordinates_m();
    let [west, south, ..] = Network::bounds_m(&places);
    let mut roads = Vec::with_capacity(16 * network.links().len());
    let mut details = Vec::with_capacity(network.links().len());
    for (index, link) in network.links().iter().enumerate() {
        for junction in [link.from, link.to] {
            let (x, y) = places[junction as usize];
            roads.extend(((x - west) as f32).to_le_bytes());
            roads.extend(((y - south) as f32).to_le_bytes());
        }
        details.push(Detail {
            name: network.link_name(index as u32),
            length_m: link.length_mm / 1000,
            speed_kmh: link.speed_mm_s * 36 / 10_000,
            lanes: link.lanes,
            storage: network.flow(index as u32, simulation.physics()).storage,
        });
    }
    let frame = Mutex::new(Arc::new(Vec::new()));
    SharedState {
        roads,
        control: Mutex::new(control),
        changed: Condvar::new(),
        frame,
        details,
    }
}

/// Publishes a frame, which browsers fetch to update the page. It consists of seven 64-bit floats
/// and one byte per road. The byte of a road is its occupancy, from 0 (empty) to 255 (full). The
/// floats are:
///
/// 1. The simulated time in seconds.
/// 2. The number of moving cars.
/// 3. The number of cars that wait to enter a road, or that drive past full roads.
/// 4. The number of finished trips.
/// 5. The time that cars have spent on roads, in seconds.
/// 6. The time that they would have needed in free flow. The page computes the mean speed from
///    these two times.
/// 7. The number of control requests that the frame takes into account.
fn publish_frame(
    shared_state: &SharedState,
    simulation: &Simulation,
    applied: u32,
    occupancy: &mut Vec<u16>,
) {
    simulation.occupancy(occupancy);
    let tally = simulation.tally();
    let mut frame = Vec::with_capacity(56 + occupancy.len());
    let sums = [
        f64::from(simulation.now_ms()) / 1000.0,
        tally.moving as f64,
        tally.waiting_to_enter as f64,
        tally.arrived as f64,
        simulation.vehicle_seconds(),
        simulation.free_flow_seconds(),
        f64::from(applied),
    ];
    sums.iter().for_each(|sum| frame.extend(sum.to_le_bytes()));
    let full = |(&cars, detail): (&u16, &Detail)| {
        (u32::from(cars) * 255 / u32::from(detail.storage)).min(255) as u8
    };
    frame.extend(occupancy.iter().zip(&shared_state.details).map(full));
    *shared_state
        .frame
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Arc::new(frame);
}
