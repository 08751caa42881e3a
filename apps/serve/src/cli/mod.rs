//! The command line, with one module per subcommand.

pub mod evaluate;
pub mod load;
mod private;
pub mod serve;
mod shutdown;
mod store;
pub mod time;

use std::time::Duration;

use creel_console::{Exit, Failure, Interrupt, with_causes};
use creel_serve::ServerError;
use creel_serve::store::Reason;

/// Converts an error of the library to a failure with the matching exit code.
fn exit_error(error: ServerError) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, InvalidData};
    let exit = match &error {
        ServerError::Setting(_) | ServerError::Pool(_) => Exit::Usage,
        ServerError::File(_, io) if io.kind() == InvalidData => Exit::BadData,
        ServerError::Listen(_, io) if io.kind() == AddrInUse => Exit::TryAgain,
        ServerError::Files(_) => Exit::TryAgain,
        ServerError::Store(error) if error.reason == Reason::Locked => Exit::TryAgain,
        ServerError::File(..) | ServerError::Listen(..) | ServerError::Store(_) => Exit::SomeFailed,
    };
    Failure::new(exit, with_causes(error)).into()
}

/// Completes after an interrupt, for example Ctrl-C, has been requested.
async fn stop_requested(interrupt: Interrupt) {
    while !interrupt.requested() {
        creel::time::sleep(Duration::from_millis(50)).await;
    }
}
