//! MPRIS: the desktop's media keys, panels and `playerctl` reach the player over D-Bus.
//!
//! It runs on the pool of the renderer, like the remote control, and starts no thread
//! (`bus_socket.rs`). If there is no session bus, the player works without MPRIS and prints no
//! message. If the bus goes away, we do not reconnect. The player never waits for the bus.
//!
//! We compare the state of the session every [`POLL_INTERVAL`], because keys and the remote control
//! also change it. Changes are sent as changed properties (`state.rs`). If the position differs
//! from what the elapsed time explains, we send the signal `Seeked`.
//!
//! Source: MPRIS D-Bus Interface Specification 2.2. We leave out the track list and playlists on
//! purpose, because desktops do not show them.

mod bus_socket;
mod objects;
mod state;

use std::sync::Arc;
use std::time::Duration;

use creel::Pool;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::RequestNameFlags;

use super::session::PlayerSession;
use bus_socket::BusSocket;
use objects::{Player, Program};
use state::State;

const PATH: &str = "/org/mpris/MediaPlayer2";
const NAME: &str = "org.mpris.MediaPlayer2.creel_vgm";
/// The time between two checks for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Lets the desktop control the player until the pool ends.
pub fn serve(session: &Arc<PlayerSession>, pool: &Pool) {
    let (session, handle) = (Arc::clone(session), pool.handle());
    // We ignore errors, because playback does not depend on the desktop.
    pool.spawn(async move {
        let _ = run(&session, &handle).await;
    });
}

async fn run(session: &Arc<PlayerSession>, handle: &Pool) -> zbus::Result<()> {
    let bus = Builder::socket(BusSocket::to_session()?)
        .internal_executor(false)
        .serve_at(PATH, Program(Arc::clone(session)))?
        .serve_at(PATH, Player(Arc::clone(session)))?
        .build()
        .await?;
    let executor = bus.executor().clone();
    handle.spawn(async move {
        loop {
            executor.tick().await;
        }
    });
    acquire_name(&bus).await?;
    let player = bus.object_server().interface::<_, Player>(PATH).await?;
    let mut previous = State::of(session);
    loop {
        creel::time::sleep(POLL_INTERVAL).await;
        let now = State::of(session);
        now.emit_changes(&previous, &player).await?;
        previous = now;
    }
}

/// Acquires the name of the player on the bus. A second player adds its process ID to the name.
async fn acquire_name(bus: &Connection) -> zbus::Result<()> {
    let alone = RequestNameFlags::DoNotQueue.into();
    match bus.request_name_with_flags(NAME, alone).await {
        Err(zbus::Error::NameTaken) => {
            let name = format!("{NAME}.instance{}", std::process::id());
            bus.request_name_with_flags(name, alone).await?;
        }
        taken => {
            taken?;
        }
    }
    Ok(())
}
