//! MPRIS: the desktop's media keys, panels and `playerctl` reach the player over D-Bus.
//!
//! It runs on the renderer's pool, as the remote control does, and starts no thread (`line.rs`).
//! Without a session bus there is nobody to talk to, and nothing is said about it; a bus that goes
//! away is not looked for again. Nobody waits for it.
//!
//! What changes is looked for [`LOOK`] apart, in the session, whoever changed it, and told as changed
//! properties (`state.rs`); a place that is not where time would have led is told as `Seeked`.
//!
//! Source: MPRIS D-Bus Interface Specification 2.2. Left out on purpose: the track list and
//! playlists, which desktops do not show.

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
/// How often is looked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Lets the desktop tell the player what to do, from now on until the pool ends.
pub fn serve(session: &Arc<PlayerSession>, pool: &Pool) {
    let (session, handle) = (Arc::clone(session), pool.handle());
    // A desktop that is not there, or goes, changes nothing for who listens.
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

/// Takes the player's name; a second player has its process's number in it.
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
