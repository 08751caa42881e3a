//! Pools that several parts of a program share by name.
//!
//! Use a registry if parts that do not know each other should share threads, for example plugins of
//! a host program. If you can pass a [`Pool`] from function to function, do that instead.

use super::{BuildError, Owner, Pool, PoolBuilder, Wait, shared::Shared};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
};

/// A registry of pools that parts of a program share by name. A part can ask for its pool without
/// knowing which other parts use it.
///
/// A pool lives as long as at least one part holds it or a clone of it.
///
/// ```
/// use creel::{NamedPools, Pool, Wait};
/// use std::time::Duration;
///
/// let pools = NamedPools::default();
/// let throttle = |ms| Pool::builder().workers(1).wait(Wait::Throttle(Duration::from_millis(ms)));
/// let one = pools.acquire("audio", throttle(2))?;
/// let other = pools.acquire("audio", throttle(2))?;
/// one.resize(2).unwrap();
/// assert_eq!(other.workers(), 2); // it is the same pool
/// let error = pools.acquire("audio", throttle(20)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot share the pool `audio`: it has 1 workers that wait by throttle:2ms, \
///      but is now requested with 1 workers that wait by throttle:20ms",
/// );
/// # Ok::<(), creel::AcquireError>(())
/// ```
#[derive(Debug, Default)]
pub struct NamedPools {
    pools: Mutex<HashMap<String, (NamedSettings, WeakPool)>>,
}

/// A reference that does not keep the pool from ending. All clones of the pool count, because they
/// share the owner.
#[derive(Debug)]
struct WeakPool {
    shared: Weak<Shared>,
    owner: Weak<Owner>,
}

impl WeakPool {
    fn new(pool: &Pool) -> Self {
        let owner = pool.owner.as_ref();
        Self {
            shared: Arc::downgrade(&pool.shared),
            owner: owner.map(Arc::downgrade).unwrap_or_default(),
        }
    }

    /// Returns the pool, unless its end has begun.
    fn upgrade(&self) -> Option<Pool> {
        // We upgrade the reference to the owner last. If all other clones are dropped now, this
        // clone ends the pool, and it needs the pool's shared data for that.
        let shared = self.shared.upgrade()?;
        let owner = self.owner.upgrade()?;
        let ended = owner.ended.load(Ordering::Relaxed);
        (!ended).then(|| Pool::new_of(shared, Some(owner)))
    }
}

/// The settings on which two requests for the same name must agree.
///
/// ```
/// use creel::{AcquireError, NamedPools, Pool};
///
/// let pools = NamedPools::default();
/// let _held = pools.acquire("io", Pool::builder().workers(1))?;
/// let error = pools.acquire("io", Pool::builder().workers(2)).unwrap_err();
/// let AcquireError::Differs { has, asked, .. } = error else { panic!("{error}") };
/// assert_eq!((has.workers, asked.workers), (Some(1), Some(2)));
/// # Ok::<(), creel::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedSettings {
    /// The number of workers. `None` means one per core that the process may use.
    pub workers: Option<usize>,
    /// How the workers wait for work.
    pub wait: Wait,
}

/// The error of [`NamedPools::acquire`].
///
/// ```
/// use creel::{AcquireError, NamedPools, Pool};
///
/// let error = NamedPools::default().acquire("none", Pool::builder().workers(0)).unwrap_err();
/// assert!(matches!(error, AcquireError::Build(_)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// A pool of this name exists, and its settings differ from the requested ones.
    Differs {
        /// The name of the pool.
        name: String,
        /// The settings with which the existing pool was created.
        has: NamedSettings,
        /// The settings that the caller asked for.
        asked: NamedSettings,
    },
    /// No pool of this name exists, and a new one could not be created.
    Build(BuildError),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |workers: &Option<usize>| match workers {
            Some(workers) => workers.to_string(),
            None => "the default number of".into(),
        };
        match self {
            AcquireError::Differs { name, has, asked } => write!(
                f,
                "cannot share the pool `{name}`: it has {} workers that wait by {}, \
                 but is now requested with {} workers that wait by {}",
                count(&has.workers),
                has.wait,
                count(&asked.workers),
                asked.wait,
            ),
            AcquireError::Build(_) => f.write_str("cannot create the pool"),
        }
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AcquireError::Differs { .. } => None,
            AcquireError::Build(error) => Some(error),
        }
    }
}

impl NamedPools {
    /// Returns the pool with this name. If no part of the program holds such a pool, this creates
    /// one with these settings. If a pool exists, this ignores all settings except for those in
    /// [`NamedSettings`].
    ///
    /// # Errors
    /// Returns an error if the existing pool was created with a different number of workers or a
    /// different way to wait, or if a new pool cannot be created.
    ///
    /// ```
    /// use creel::{NamedPools, Pool};
    ///
    /// let pools = NamedPools::default();
    /// let encoder = pools.acquire("encode", Pool::builder().workers(2))?;
    /// let decoder = pools.acquire("encode", Pool::builder().workers(2))?; // the same pool
    /// assert_eq!(encoder.map(0..2, |n| n), decoder.map(0..2, |n| n));
    /// # Ok::<(), creel::AcquireError>(())
    /// ```
    pub fn acquire(&self, name: &str, settings: PoolBuilder) -> Result<Pool, AcquireError> {
        let asked = NamedSettings {
            workers: settings.workers,
            wait: settings.wait,
        };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.get(name);
        if let Some((has, pool)) = known.and_then(|(has, pool)| Some((*has, pool.upgrade()?))) {
            // We unlock first, because `pool` may be the last clone by now. Dropping the last clone
            // ends the pool, which may run the program's own code.
            drop(pools);
            let name = name.into();
            return match has == asked {
                true => Ok(pool),
                false => Err(AcquireError::Differs { name, has, asked }),
            };
        }
        let pool = settings.name(name).build().map_err(AcquireError::Build)?;
        // We remove the names of ended pools whenever a pool is created, so that the registry does
        // not grow for ever.
        pools.retain(|_, (_, pool)| pool.owner.strong_count() > 0);
        pools.insert(name.into(), (asked, WeakPool::new(&pool)));
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_pool_is_freed_with_its_last_holder() {
        let pools = NamedPools::default();
        let one = || pools.acquire("a", Pool::builder().workers(1));
        let two = || pools.acquire("a", Pool::builder().workers(2));
        let context = one().unwrap();
        assert!(two().is_err());
        drop(context);
        assert_eq!(two().unwrap().workers(), 2);
        assert!(pools.acquire("b", Pool::builder().workers(0)).is_err());
    }
}
