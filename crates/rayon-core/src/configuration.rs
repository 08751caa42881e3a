//! The settings of a pool under the names that rayon used before `ThreadPoolBuilder`.

#![allow(deprecated)]

use crate::{ThreadPool, ThreadPoolBuilder};
use std::{any::Any, error::Error};

/// The builder that rayon had before [`ThreadPoolBuilder`]. We keep it for crates that still use
/// it.
#[deprecated(note = "use `ThreadPoolBuilder`")]
#[derive(Debug, Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

impl Configuration {
    /// Creates a builder with the default settings.
    pub fn new() -> Configuration {
        Self::default()
    }

    /// Creates a pool.
    ///
    /// # Errors
    /// Returns the same errors as [`ThreadPoolBuilder::build`].
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        self.into_builder().build().map_err(Box::from)
    }

    /// Sets a function that returns the name of each thread, as [`ThreadPoolBuilder::thread_name`]
    /// does.
    #[must_use]
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.builder = self.builder.thread_name(closure);
        self
    }

    /// Sets the number of threads, as [`ThreadPoolBuilder::num_threads`] does.
    #[must_use]
    pub fn num_threads(mut self, num_threads: usize) -> Configuration {
        self.builder = self.builder.num_threads(num_threads);
        self
    }

    /// Sets a function that receives panics, as [`ThreadPoolBuilder::panic_handler`] does.
    #[must_use]
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Configuration
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.builder = self.builder.panic_handler(panic_handler);
        self
    }

    /// Sets the stack size of the threads, as [`ThreadPoolBuilder::stack_size`] does.
    #[must_use]
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.builder = self.builder.stack_size(stack_size);
        self
    }

    /// Makes threads take their oldest job first, as [`ThreadPoolBuilder::breadth_first`] does.
    #[must_use]
    pub fn breadth_first(mut self) -> Self {
        self.builder.set_breadth_first();
        self
    }

    /// Sets a function that each thread calls when it starts, as
    /// [`ThreadPoolBuilder::start_handler`] does.
    #[must_use]
    pub fn start_handler<H>(mut self, start_handler: H) -> Configuration
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.builder = self.builder.start_handler(start_handler);
        self
    }

    /// Sets a function that each thread calls before it ends, as
    /// [`ThreadPoolBuilder::exit_handler`] does.
    #[must_use]
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Configuration
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.builder = self.builder.exit_handler(exit_handler);
        self
    }

    pub(crate) fn into_builder(self) -> ThreadPoolBuilder {
        self.builder
    }
}

/// Creates the global pool.
///
/// # Errors
/// Returns the same errors as [`ThreadPoolBuilder::build_global`].
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    config.into_builder().build_global().map_err(Box::from)
}
