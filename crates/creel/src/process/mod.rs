//! Child processes: started, awaited and killed, with pipes that do not block a thread.
//!
//! [`Command`] has the methods of the command of the standard library. Its `async` methods wait
//! without blocking a thread:
//!
//! ```
//! use creel::process::Command;
//!
//! let pool = creel::Pool::builder().workers(1).build()?;
//! let output = pool.block_on(Command::new("echo").arg("hello").output())?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How the runtime waits for a child
//!
//! On Linux, each child has a process descriptor (`pidfd`), which the pool's poller watches. On
//! other Unix systems, and on kernels before Linux 5.3, the runtime waits for the signal `SIGCHLD`
//! instead, and then asks the system about this child. It never waits for children that it has not
//! started. Therefore it does not interfere with other code that starts processes.
//!
//! # Children that are dropped
//!
//! A child continues after you drop its [`Child`], as in the standard library. If you set
//! [`Command::kill_on_drop`], the runtime kills it instead. In both cases the system keeps a
//! *zombie* of an ended child until the parent has waited for it:
//!
//! - After a kill, a thread for [`blocking`](crate::blocking) calls waits for the child at once.
//! - The runtime waits for an ended child when the process next starts a child, or drops another
//!   one that continues.
//!
//! # Left out
//!
//! Windows has no module `process`, because its pipes cannot be polled. Use
//! [`creel::blocking`](crate::blocking) there. Starting a process blocks the calling thread for
//! about a millisecond, because the system has no call for it that does not.

mod child;
mod command;
mod dropped;
mod pipe;

pub use child::Child;
pub use command::Command;
pub use pipe::{ChildStderr, ChildStdin, ChildStdout};
