//! The workloads; one file each. A new one is its module here and its line in [`ALL`].

mod decode;
mod iterate;
mod programs;
pub mod render;
#[cfg(target_os = "linux")]
pub mod serve;
mod streams;
mod traffic;
mod whispers;

use crate::harness::Case;
use crate::setting::Setting;

/// Something that programs do, measured in several cases.
pub struct Workload {
    /// As given on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Its cases under a setting, the most telling first.
    pub cases: fn(&Setting) -> anyhow::Result<Vec<Case>>,
}

/// All workloads, in the order they are run.
pub const ALL: &[Workload] = &[
    iterate::WORKLOAD,
    programs::WORKLOAD,
    render::WORKLOAD,
    whispers::WORKLOAD,
    streams::WORKLOAD,
    #[cfg(target_os = "linux")]
    serve::WORKLOAD,
    traffic::WORKLOAD,
    decode::WORKLOAD,
];

/// Those that are left out unless a workload or a case is asked for: they take minutes each.
pub const ONLY_NAMED: &[&str] = &["decode", "programs", "serve"];

/// The names, for the command line.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name).collect()
}
