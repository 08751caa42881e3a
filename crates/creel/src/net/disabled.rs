//! What the pool sees of `net` where it is left out: a driver that never has a socket.

/// No sockets.
pub(crate) mod driver {
    use crate::worker::{parker, woken::Woken};
    use std::{task::Waker, time::Duration};

    /// Has no socket.
    #[derive(Default)]
    pub(crate) struct Driver;

    /// Nothing.
    #[derive(Default)]
    pub(crate) struct Found {
        pub(crate) count: usize,
        pub(crate) full: bool,
        pub(crate) level: bool,
        pub(crate) due: Woken,
    }

    impl Driver {
        pub(crate) fn set_alone(&self, _: bool) {}

        pub(crate) fn is_unsure(&self) -> bool {
            false
        }

        pub(crate) fn set_wake(&self, _: Waker) {}

        pub(crate) fn wake_if_unattended(&self) {}

        pub(crate) fn is_unattended(&self) -> bool {
            true
        }

        pub(crate) fn attended(&self) -> u64 {
            0
        }

        pub(crate) fn is_empty(&self) -> bool {
            true
        }

        pub(crate) fn turn(&self, _: bool) -> Option<Found> {
            None
        }

        pub(crate) fn wait(&self, _: Option<Duration>, _: impl FnOnce() -> bool) -> Option<Found> {
            None
        }

        pub(crate) fn end(&self) {}
    }

    impl parker::Poller for Driver {
        fn interrupt(&self) {}
    }
}

/// No operations on sockets.
pub(crate) mod io {
    use super::driver::Driver;
    use std::sync::Arc;

    /// Nothing to put back.
    pub(crate) struct Entered;

    pub(crate) fn enter(_: Arc<Driver>) -> Entered {
        Entered
    }
}
