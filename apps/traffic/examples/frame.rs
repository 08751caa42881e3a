//! A game loop at sixty frames per second. In each frame, the same workers run a part of the
//! simulation and draw a picture.
//!
//! The simulation has a time budget per frame. If the budget is not enough, the game runs slower.
//! It does not catch up later, so that one late frame does not delay the following frames. The
//! results depend only on the number of ticks, and not on the frames in which they ran.
//!
//! `cargo run --release -p creel-traffic --example frame`

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::{Pool, Wait};
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::sim::Simulation;

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// The parameters of a game.
#[derive(Clone, Copy, Debug)]
pub struct Game {
    /// The number of junctions per side of the city.
    pub side: u32,
    /// The number of cars, which drive for ever.
    pub cars: u32,
    /// The number of frames.
    pub frames: u32,
    /// The number of ticks per frame, if there is enough time.
    pub ticks: u32,
    /// The part of a frame that the simulation may use.
    pub budget: Duration,
}

/// The result of a game.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// The number of ticks that were run.
    pub ticks: u32,
    /// The number of frames in which there was no time for all ticks.
    pub short: u32,
    /// The number of frames that were late.
    pub late: u32,
    /// The hash of the final state.
    pub hash: u64,
    /// The number of pixels of the last picture that show a car.
    pub lit: usize,
}

/// A picture with one pixel per road, in rows.
struct Screen {
    pixels: Vec<u8>,
    width: usize,
}

impl Screen {
    /// Draws the occupancy of all roads. Each row is drawn by whichever worker is free.
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

/// Plays all frames.
///
/// # Errors
/// Returns an error if the city cannot be generated.
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
    // We use one session for all frames, so that the workers stay awake between two loops.
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
