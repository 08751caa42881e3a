//! Builds and starts a child process. [`Command`] wraps the type of the same name of the standard
//! library, and adds methods that wait without blocking a thread.

use super::child::Child;
use super::dropped;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{self, ExitStatus, Output, Stdio};

/// Builds a child process, like [`std::process::Command`].
///
/// ```
/// use creel::process::Command;
/// use std::process::Stdio;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(async {
///     let mut sort = Command::new("sort")
///         .stdin(Stdio::piped())
///         .stdout(Stdio::piped())
///         .kill_on_drop(true)
///         .spawn()?;
///     let stdin = sort.stdin.take().unwrap();
///     stdin.write_all(b"pear\napple\n").await?;
///     drop(stdin); // the child reads the end of its input
///     let output = sort.wait_with_output().await?;
///     assert_eq!(output.stdout, b"apple\npear\n");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Command {
    command: process::Command,
    kill_on_drop: bool,
}

impl Command {
    /// Creates a command that starts `program`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        process::Command::new(program).into()
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(argument);
        self
    }

    /// Adds several arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable for the child.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable for the child.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.command.env_remove(name);
        self
    }

    /// Removes all environment variables for the child.
    pub fn env_clear(&mut self) -> &mut Self {
        self.command.env_clear();
        self
    }

    /// Sets the working directory of the child.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets the standard input of the child.
    pub fn stdin(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(to);
        self
    }

    /// Sets the standard output of the child.
    pub fn stdout(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(to);
        self
    }

    /// Sets the standard error of the child.
    pub fn stderr(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(to);
        self
    }

    /// Sets whether the child is killed when its [`Child`] is dropped, or when a future of
    /// [`status`](Self::status), [`output`](Self::output) or [`Child::wait_with_output`] is dropped
    /// before it is ready. The default is `false`.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// Returns the command of the standard library, for settings and questions that this type does
    /// not have.
    ///
    /// ```
    /// use creel::process::Command;
    ///
    /// let mut sort = Command::new("sort");
    /// sort.arg("-r");
    /// let sort = sort.as_std_mut();
    /// assert_eq!(sort.get_program(), "sort");
    /// assert!(sort.get_args().eq(["-r"]));
    /// ```
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.command
    }

    /// Starts the child. It inherits the standard streams that you have not set.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started, for example because it does not exist.
    pub fn spawn(&mut self) -> io::Result<Child> {
        dropped::reap();
        Child::new(self.command.spawn()?, self.kill_on_drop)
    }

    /// Starts the child and waits until it ends. It inherits the standard streams that you have not
    /// set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Self::spawn) and [`Child::wait`].
    pub async fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait().await
    }

    /// Starts the child, collects its output, and waits until it ends. Its standard output and
    /// standard error are always pipes. It inherits the standard input, unless you have set it.
    /// [`std::process::Command::output`] differs in this.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    pub async fn output(&mut self) -> io::Result<Output> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn()?.wait_with_output().await
    }
}

impl From<process::Command> for Command {
    fn from(command: process::Command) -> Self {
        Command {
            command,
            kill_on_drop: false,
        }
    }
}
