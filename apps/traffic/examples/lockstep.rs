//! Two players, each with a simulation of its own, in lock-step over a socket.
//!
//! Each turn is ten ticks. A player sends what it does in the turn and the hash of its state before
//! it, waits for the other's, does both in the order of the players, and goes on. Only inputs are
//! sent, whatever the size of the city; whose hash differs has another state, and is told at once.
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

/// What a player does: works on a road, by which fewer cars get through.
#[derive(Clone, Copy, Debug)]
struct Works {
    link: u32,
    /// From one car to the next.
    headway_ms: u16,
}

/// What is sent: the hash before the turn, then the input, little end first.
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

/// Plays so many turns as player 0 or 1, and gives the hash at the end. `cheats_at` is a turn in which
/// the player does something that it does not send.
///
/// # Errors
/// The socket's, and a state that is not the other's.
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
            return Err(io::Error::other(format!("not in step before turn {turn}")).into());
        }
        let mut both = [works, theirs.works];
        both.rotate_left(player);
        for works in both {
            simulation.set_headway(works.link, Some(works.headway_ms))?;
        }
        if cheats_at == Some(turn) {
            simulation.set_headway(both[player].link, None)?;
        }
        simulation.run(&pool, TURN_TICKS);
    }
    Ok(simulation.hash(&pool))
}

/// What both players have at the end.
pub type Ends = [Result<u64, Box<dyn std::error::Error + Send + Sync>>; 2];

/// Both players, on a socket of this machine; the first with one worker, the second with three.
///
/// # Errors
/// The socket's.
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
    let second = second.join().expect("no panic");
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
