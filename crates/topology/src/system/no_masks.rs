//! Systems without affinity masks.

use crate::types::{CpuSet, Error};

pub(crate) fn current() -> Result<CpuSet, Error> {
    Err(Error::Unsupported("affinity masks"))
}

pub(crate) fn thread() -> Option<i32> {
    None
}

pub(crate) fn pu() -> Option<usize> {
    None
}

pub(crate) fn set(_: i32, _: &CpuSet) -> Result<(), Error> {
    Err(Error::Unsupported("affinity masks"))
}

#[cfg(not(any(target_vendor = "apple", target_os = "android")))]
pub(crate) fn parts() -> Option<crate::types::Parts> {
    super::only_pus()
}
