//! A replacement for `net` when the feature `net` is off. It gives the pool an I/O driver that
//! never has a socket.

/// A driver without sockets.
pub(crate) mod driver {
    use crate::worker::parker;
    use crate::worker::parts::{Found, SocketPart};
    use std::{sync::Arc, task::Waker, time::Duration};

    /// A driver that never has a socket.
    #[derive(Default)]
    pub(crate) struct Driver;

    /// A guard that restores nothing when it is dropped.
    pub(crate) struct Entered;

    impl SocketPart for Driver {
        type Entered = Entered;

        fn enter(_: Arc<Self>) -> Entered {
            Entered
        }

        fn set_alone(&self, _: bool) {}

        fn is_unsure(&self) -> bool {
            false
        }

        fn set_wake(&self, _: Waker) {}

        fn wake_if_unattended(&self) {}

        fn is_unattended(&self) -> bool {
            true
        }

        fn attended(&self) -> u64 {
            0
        }

        fn is_empty(&self) -> bool {
            true
        }

        fn turn(&self, _: bool) -> Option<Found> {
            None
        }

        fn wait(&self, _: Option<Duration>, _: impl FnOnce() -> bool) -> Option<Found> {
            None
        }

        fn end(&self) {}
    }

    impl parker::Poller for Driver {
        fn interrupt(&self) {}
    }
}
