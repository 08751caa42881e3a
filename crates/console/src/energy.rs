//! The energy counters of the CPU packages (RAPL), if the kernel lets us read them.
//!
//! They count the energy that the whole machine uses, not the energy of one program.
//!
//! Source: Documentation/power/powercap/powercap.rst. `energy_uj` counts up to
//! `max_energy_range_uj` and starts again at zero.

use std::{fs, path::PathBuf};

const POWERCAP: &str = "/sys/class/powercap";

/// The counter of one package, in microjoules.
struct Zone {
    counter: PathBuf,
    range_uj: u64,
    last_uj: u64,
}

/// A meter that sums the counters of all packages.
///
/// Call [`Meter::read_zone`] often enough that no counter wraps twice between two calls. For
/// example, a range of 262 kJ lasts 20 minutes at 200 W.
///
/// ```
/// use creel_console::energy::Meter;
///
/// let meter = Meter::start();
/// // Work.
/// let joules = meter.map(Meter::joules);
/// assert!(joules.is_none_or(|joules| joules >= 0.0));
/// ```
pub struct Meter {
    zones: Vec<Zone>,
    used_uj: u64,
}

impl Meter {
    /// Starts a meter at zero. Returns `None` if no counter of a package is readable.
    pub fn start() -> Option<Self> {
        let zones: Vec<Zone> = fs::read_dir(POWERCAP)
            .ok()?
            .filter_map(|entry| package_zone(entry.ok()?.path()))
            .collect();
        (!zones.is_empty()).then_some(Self { zones, used_uj: 0 })
    }

    /// Reads the counters and adds the energy used since the last call.
    pub fn read_zone(&mut self) {
        for zone in &mut self.zones {
            if let Some(now) = read_number(&zone.counter) {
                self.used_uj += advance(zone.last_uj, now, zone.range_uj);
                zone.last_uj = now;
            }
        }
    }

    /// Returns the energy used since the start, in joules.
    pub fn joules(mut self) -> f64 {
        self.read_zone();
        self.used_uj as f64 / 1e6
    }
}

/// Returns the zone of a whole package (`intel-rapl:0`). We skip the zones of parts of a package
/// (`intel-rapl:0:1`) and the zone of the platform, because they would count energy twice.
fn package_zone(folder: PathBuf) -> Option<Zone> {
    let name = folder.file_name()?.to_str()?;
    let whole = name.starts_with("intel-rapl:") && name.matches(':').count() == 1;
    let label = crate::system::text(folder.join("name")).ok()?;
    if !whole || !label.starts_with("package") {
        return None;
    }
    let counter = folder.join("energy_uj");
    Some(Zone {
        range_uj: read_number(&folder.join("max_energy_range_uj"))?,
        last_uj: read_number(&counter)?,
        counter,
    })
}

/// Returns the increase of a counter that has wrapped at most once.
fn advance(before: u64, now: u64, range: u64) -> u64 {
    if now >= before {
        now - before
    } else {
        range.saturating_sub(before) + now
    }
}

fn read_number(file: &std::path::Path) -> Option<u64> {
    crate::system::text(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::advance;

    #[test]
    fn counter_overflow_is_counted_once() {
        assert_eq!(advance(10, 25, 100), 15);
        assert_eq!(advance(90, 5, 100), 15);
        assert_eq!(advance(7, 7, 100), 0);
    }
}
