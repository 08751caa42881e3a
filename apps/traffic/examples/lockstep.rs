//! Two players run the same simulation in lockstep over a socket.
//!
//! A turn has ten ticks. In each turn, a player sends its input and the hash of its state, and
//! waits for those of the other player. Both inputs are then applied in the order of the players.
//! Only inputs and hashes are sent, so the amount of data does not depend on the size of the city.
//! If the hashes differ, the states differ, and the game ends with an error.
//!
//! `cargo run --release -p creel-traffic --example lockstep`

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::random::Stream;
use creel_traffic::sim::Simulation;

const TURN_TICKS: u32 = 10;

/// The input of a player: road works, which let fewer cars pass.
#[derive(Clone, Copy, Debug)]
struct Works {
    link: u32,
    /// The minimum time between two cars.
    headway_ms: u16,
}

/// The content of a message: the hash before the turn and the input, in little-endian byte order.
#[derive(Clone, Copy, Debug)]
struct Turn {
    hash: u64,
    works: Works,
}

impl Turn {
    fn bytes(self) -> [u8; 14] {
        let mut bytes = [0; 14];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.works.link.to_le_bytes());
        bytes[12..].copy_from_slice(&self.works.headway_ms.to_le_bytes());
        bytes
    }

    fn of(bytes: [u8; 14]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = bytes;
        Self {
            hash: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            works: Works {
                link: u32::from_le_bytes([i, j, k, l]),
                headway_ms: u16::from_le_bytes([m, n]),
            },
        }
    }
}

/// Plays as player 0 or 1, and returns the hash of the final state. In turn `cheats_at`, the player
/// does something that it does not send.
///
/// # Errors
/// Returns an error if the socket fails, or if the states of the players differ.
pub fn play(
    mut other: TcpStream,
    player: usize,
    workers: usize,
    turns: u32,
    cheats_at: Option<u32>,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let pool = Pool::builder().workers(workers).build()?;
    let network = Arc::new(City::grid(24, 24).network()?);
    let roads = network.links().len() as u64;
    let plans = Arc::new(laps::plans(&pool, &network, 4000, 7)?);
    let mut simulation = Simulation::new(&pool, network, plans, Default::default())?;
    let mut whims = Stream::of(player as u64, "a player's whims", 0);
    for turn in 0..turns {
        let works = Works {
            link: whims.below(roads) as u32,
            headway_ms: 2000 + whims.below(20_000) as u16,
        };
        let hash = simulation.hash(&pool);
        other.write_all(&Turn { hash, works }.bytes())?;
        let mut bytes = [0; 14];
        other.read_exact(&mut bytes)?;
        let theirs = Turn::of(bytes);
        if theirs.hash != hash {
            return Err(io::Error::other(format!("the states differ before turn {turn}")).into());
        }
        let mut both = [works, theirs.works];
        both.rotate_left(player);
        for works in both {
            simulation.set_headway(works.link, Some(works.headway_ms.into()))?;
        }
        if cheats_at == Some(turn) {
            simulation.set_headway(both[player].link, None)?;
        }
        simulation.run(&pool, TURN_TICKS);
    }
    Ok(simulation.hash(&pool))
}

/// The results of both players.
pub type Ends = [Result<u64, Box<dyn std::error::Error + Send + Sync>>; 2];

/// Runs both players on this machine, connected by a socket. The first has one worker and the
/// second has three.
///
/// # Errors
/// Returns an error if the socket cannot be opened.
pub fn match_up(turns: u32, cheats_at: Option<u32>) -> io::Result<Ends> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let second = std::thread::spawn(move || {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        play(stream, 1, 3, turns, None)
    });
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let first = play(stream, 0, 1, turns, cheats_at);
    let second = second.join().expect("the second player does not panic");
    Ok([first, second])
}

#[allow(dead_code, reason = "a test includes this file and plays by itself")]
fn main() -> io::Result<()> {
    for cheats_at in [None, Some(30)] {
        for (player, end) in match_up(60, cheats_at)?.into_iter().enumerate() {
            match end {
                Ok(hash) => println!("player {player}: {hash:016x}"),
                Err(error) => println!("player {player}: {error}"),
            }
        }
    }
    Ok(())
}
