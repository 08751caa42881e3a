//! Pools shared by name.

use super::{BuildError, Pool, PoolBuilder, Wait};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Pools that parts of a program share by name, so that each part may ask for its pool without
/// knowing who else does.
///
/// A pool lives as long as somebody holds it.
///
/// ```
/// use creel::{NamedPools, Pool, Wait};
/// use std::time::Duration;
///
/// let pools = NamedPools::default();
/// let throttle = |ms| Pool::builder().workers(1).wait(Wait::Throttle(Duration::from_millis(ms)));
/// let one = pools.acquire("audio", throttle(2))?;
/// let other = pools.acquire("audio", throttle(2))?;
/// assert!(std::sync::Arc::ptr_eq(&one, &other));
/// let error = pools.acquire("audio", throttle(20)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "pool `audio` has 1 workers that wait by throttle:2ms, \
///      and is asked for with 1 that wait by throttle:20ms",
/// );
/// # Ok::<(), creel::AcquireError>(())
/// ```
#[derive(Debug, Default)]
pub struct NamedPools {
    pools: Mutex<HashMap<String, (NamedSettings, Weak<Pool>)>>,
}

/// What two requests for one name must agree on.
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
pub struct NamedSettings {
    /// How many workers; none: as many as there are usable cores.
    pub workers: Option<usize>,
    /// How they wait.
    pub wait: Wait,
}

/// Why a name gave no pool.
///
/// ```
/// use creel::{AcquireError, NamedPools, Pool};
///
/// let error = NamedPools::default().acquire("none", Pool::builder().workers(0)).unwrap_err();
/// assert!(matches!(error, AcquireError::Build(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The name is taken by a pool with other settings.
    Differs {
        /// The name.
        name: String,
        /// The settings of the pool that is there.
        has: NamedSettings,
        /// Those asked for.
        asked: NamedSettings,
    },
    /// There is no pool of that name yet, and it could not be made.
    Build(BuildError),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |workers: &Option<usize>| match workers {
            Some(workers) => workers.to_string(),
            None => "by default as many".into(),
        };
        match self {
            AcquireError::Differs { name, has, asked } => write!(
                f,
                "pool `{name}` has {} workers that wait by {}, \
                 and is asked for with {} that wait by {}",
                count(&has.workers),
                has.wait,
                count(&asked.workers),
                asked.wait,
            ),
            AcquireError::Build(_) => f.write_str("the pool cannot be made"),
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
    /// The pool of that name: the one that lives, or a new one with these settings.
    ///
    /// # Errors
    /// If the one that lives has another number of workers or another way to wait, or a new one
    /// cannot be made.
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
    pub fn acquire(&self, name: &str, settings: PoolBuilder) -> Result<Arc<Pool>, AcquireError> {
        let asked = NamedSettings {
            workers: settings.workers,
            wait: settings.wait,
        };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((has, pool)) = pools.get(name)
            && let Some(pool) = pool.upgrade()
        {
            if *has != asked {
                let (name, has) = (name.into(), *has);
                return Err(AcquireError::Differs { name, has, asked });
            }
            return Ok(pool);
        }
        let pool = settings.name(name).build().map_err(AcquireError::Build)?;
        let pool = Arc::new(pool);
        // Names whose pools are gone leave with the next new one.
        pools.retain(|_, (_, pool)| pool.strong_count() > 0);
        pools.insert(name.into(), (asked, Arc::downgrade(&pool)));
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lives_as_long_as_its_holders() {
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
