//! Two players change the same city without waiting for each other (rollback netcode).
//!
//! A player applies its own input at once, and assumes that the other player does nothing. The
//! input of the other player arrives a few frames late. Then the player goes back to the frame in
//! which the input was given, applies it, and runs the frames since then again. Therefore each
//! frame begins with a copy of the state, which costs less than a frame.
//!
//! `cargo run --release -p creel-traffic --example rollback`

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::random::Stream;
use creel_traffic::sim::Simulation;

/// The simulated time of a frame.
const FRAME_MS: u32 = 50;
/// The number of frames until the input of the other player arrives.
const LATENCY: usize = 6;

/// The input of a player in one frame: it opens or closes a road. `NOTHING` means no input.
type Input = u32;
const NOTHING: Input = u32::MAX;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The result of one player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The hash of the final state, which is the same for both players.
    pub hash: u64,
    /// The number of frames that were run again.
    pub again: usize,
}

fn run_frame(simulation: &mut Simulation, pool: &Pool, inputs: [Input; 2]) -> Outcome<()> {
    for link in inputs.into_iter().filter(|&input| input != NOTHING) {
        let is_closed = simulation.is_closed(link);
        simulation.set_closed(link, !is_closed)?;
        if !is_closed {
            simulation.reroute_around(pool, link);
        }
    }
    simulation.run_ms(pool, FRAME_MS);
    Ok(())
}

/// Plays as player 0 or 1.
///
/// # Errors
/// Returns an error if the socket fails.
pub fn play(mut other: TcpStream, player: usize, frames: usize) -> Outcome<End> {
    let pool = Pool::builder().workers(1 + player).build()?;
    let network = Arc::new(City::grid(16, 16).network()?);
    let roads = network.links().len() as u64;
    let plans = Arc::new(laps::plans(&pool, &network, 1500, 7)?);
    let mut simulation = Simulation::new(&pool, network, plans, Default::default())?;
    let mut whims = Stream::of(player as u64, "a player's whims", 0);
    // The inputs of both players, by frame, and the states before the last frames.
    let mut inputs: Vec<[Input; 2]> = Vec::new();
    let mut states: VecDeque<Simulation> = VecDeque::new();
    let mut again = 0;
    for frame in 0..frames + LATENCY {
        if frame < frames {
            let mut mine = NOTHING;
            if whims.below(8) == 0 {
                mine = whims.below(roads) as u32;
            }
            other.write_all(&mine.to_le_bytes())?;
            let mut both = [NOTHING; 2];
            both[player] = mine;
            inputs.push(both);
        }
        if let Some(late) = frame.checked_sub(LATENCY) {
            let mut bytes = [0; 4];
            other.read_exact(&mut bytes)?;
            inputs[late][1 - player] = Input::from_le_bytes(bytes);
            if inputs[late][1 - player] != NOTHING {
                simulation.clone_from(&states[0]);
                for (state, inputs) in states.iter_mut().zip(&inputs[late..]) {
                    state.clone_from(&simulation);
                    run_frame(&mut simulation, &pool, *inputs)?;
                    again += 1;
                }
            }
            states.pop_front();
        }
        if frame < frames {
            states.push_back(simulation.clone());
            run_frame(&mut simulation, &pool, inputs[frame])?;
        }
    }
    let hash = simulation.hash(&pool);
    Ok(End { hash, again })
}

/// Runs both players on this machine, connected by a socket.
///
/// # Errors
/// Returns an error if the socket cannot be opened.
pub fn match_up(frames: usize) -> io::Result<[Outcome<End>; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let second = std::thread::spawn(move || {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        play(stream, 1, frames)
    });
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let first = play(stream, 0, frames);
    let second = second.join().expect("the second player does not panic");
    Ok([first, second])
}

#[allow(dead_code, reason = "a test includes this file and plays by itself")]
fn main() -> io::Result<()> {
    for (player, end) in match_up(600)?.into_iter().enumerate() {
        match end {
            Ok(End { hash, again }) => {
                println!("player {player}: {hash:016x}, {again} frames were run again");
            }
            Err(error) => println!("player {player}: {error}"),
        }
    }
    Ok(())
}
