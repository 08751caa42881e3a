//! A game's loop: sixty frames a second, in each a piece of the simulation and a picture, by the same
//! workers.
//!
//! A frame has a budget for the simulation. Time that it could not simulate is not owed for ever: the
//! game then runs slower, and no frame comes late because of those before. What cars do depends on
//! the ticks that were run only, never on which frame they were run in.
//!
//! `cargo run --release -p creel-traffic --example frame`

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::{Pool, Wait};
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::sim::Simulation;

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// What a game asks for.
#[derive(Clone, Copy, Debug)]
pub struct Game {
    /// Junctions from side to side.
    pub side: u32,
    /// That drive for ever.
    pub cars: u32,
    /// How long it is played.
    pub frames: u32,
    /// Ticks a frame, if there is time.
    pub ticks: u32,
    /// How much of a frame the simulation may take.
    pub budget: Duration,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Ticks that were run.
    pub ticks: u32,
    /// Frames in which there was no time for all ticks.
    pub short: u32,
    /// Frames that came later than they should.
    pub late: u32,
    /// Of the state at the end.
    pub hash: u64,
    /// Pixels of the last picture on which there is a car.
    pub lit: usize,
}

/// A picture: a pixel a road, in rows.
struct Screen {
    pixels: Vec<u8>,
    width: usize,
}

impl Screen {
    /// Draws how full roads are, each row by whichever worker is free.
    fn draw(&mut self, loops: &Pool, occupancy: &[u16]) {
        let width = self.width;
        let mut rows: Vec<&mut [u8]> = self.pixels.chunks_mut(width).collect();
        loops.for_each_indexed(&mut rows, |row, pixels| {
            for (column, pixel) in pixels.iter_mut().enumerate() {
                let cars = occupancy.get(row * width + column).copied().unwrap_or(0);
                *pixel = (f32::from(cars) / 8.0)
                    .sqrt()
                    .mul_add(255.0, 0.5)
                    .min(255.0) as u8;
            }
        });
    }
}

/// Plays for so many frames.
///
/// # Errors
/// A city or a pool that cannot be made.
pub fn play(pool: &Pool, game: Game) -> Result<Played, Box<dyn std::error::Error>> {
    let network = Arc::new(City::grid(game.side, game.side).network()?);
    let plans = Arc::new(laps::plans(pool, &network, game.cars, 1)?);
    let mut simulation = Simulation::new(pool, network.clone(), plans, Default::default())?;
    let width = 4 * game.side as usize;
    let rows = network.links().len().div_ceil(width);
    let mut screen = Screen {
        pixels: vec![0; width * rows],
        width,
    };
    let (mut short, mut late, mut ticks) = (0, 0, 0);
    let mut occupancy = Vec::new();
    // One session: between two loops the workers stay awake.
    pool.session(|loops| {
        let mut due = Instant::now();
        for _ in 0..game.frames {
            let begun = Instant::now();
            let mut left = game.ticks;
            while left > 0 && begun.elapsed() < game.budget {
                simulation.run_in(loops, 1);
                left -= 1;
                ticks += 1;
            }
            short += u32::from(left > 0);
            simulation.occupancy(&mut occupancy);
            screen.draw(loops, &occupancy);
            due += FRAME;
            match due.checked_duration_since(Instant::now()) {
                Some(wait) => std::thread::sleep(wait),
                None => {
                    late += 1;
                    due = Instant::now();
                }
            }
        }
    });
    Ok(Played {
        ticks,
        short,
        late,
        hash: simulation.hash(pool),
        lit: screen.pixels.iter().filter(|&&pixel| pixel > 0).count(),
    })
}

#[allow(dead_code, reason = "a test includes this file and plays by itself")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder().wait(Wait::Adaptive).build()?;
    let game = Game {
        side: 200,
        cars: 100_000,
        frames: 600,
        ticks: 4,
        budget: FRAME / 2,
    };
    println!("{game:?}");
    println!("{:?}", play(&pool, game)?);
    Ok(())
}
