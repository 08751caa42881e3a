//! A replacement for `net` when the feature is off. It gives the pool a driver that never has a
//! socket.

/// A driver without sockets.
pub(crate) mod driver {
    use crate::worker::{parker, woken::Woken};
    use std::{task::Waker, time::Duration};

    /// A driver that never has a socket.
    #[derive(Default)]
    pub(crate) struct Driver;

    /// The result of polling the driver, which is always empty.
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

/// Replaces the operations on sockets, of which there are none.
pub(crate) mod io {
    use super::driver::Driver;
    use std::sync::Arc;

    /// A guard that restores nothing when it is dropped.
    pub(crate) struct Entered;

    pub(crate) fn enter(_: Arc<Driver>) -> Entered {
        Entered
    }
}
