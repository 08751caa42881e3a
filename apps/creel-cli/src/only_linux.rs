//! Replaces the commands that need Linux on all other systems. Each replacement has the same API as
//! the command's module, takes any arguments, and says what is missing.

/// Defines a command that only returns an error.
macro_rules! command {
    ($module:ident, $args:ident, $because:literal) => {
        pub(crate) mod $module {
            use anyhow::{Result, bail};
            use clap::Args;
            use creel_console::{Common, Exit};
            use std::ffi::OsString;

            #[doc = concat!("Not available here, because it needs ", $because)]
            #[derive(Args)]
            pub(crate) struct $args {
                /// Ignored
                #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
                _rest: Vec<OsString>,
            }

            pub(crate) fn $module(_: &$args, _: &Common, _: bool) -> Result<Exit> {
                bail!(concat!(
                    "`creel ",
                    stringify!($module),
                    "` does not work on this system, because it needs ",
                    $because,
                    ". Run `creel topo` to see the machine"
                ))
            }
        }
    };
}

command!(run, RunArgs, "Linux's affinity masks and control groups");
command!(
    advise,
    AdviseArgs,
    "Linux's affinity masks and control groups"
);
command!(top, TopArgs, "the /proc file system of Linux");
