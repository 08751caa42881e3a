//! The packages' energy counters (RAPL), where the kernel lets us read them.
//!
//! They count what the whole machine uses, whoever uses it.
//!
//! Source: Documentation/power/powercap/powercap.rst: `energy_uj` counts up to
//! `max_energy_range_uj` and begins again.

use std::{fs, path::PathBuf};

const POWERCAP: &str = "/sys/class/powercap";

/// One package's counter, in microjoules.
struct Zone {
    counter: PathBuf,
    range_uj: u64,
    last_uj: u64,
}

/// Sums the packages' counters; must be looked at often enough that none wraps twice (at
/// 200 W a range of 262 kJ lasts 20 minutes).
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
    /// Starts at zero; `None` where no package's counter is readable.
    pub fn start() -> Option<Self> {
        let zones: Vec<Zone> = fs::read_dir(POWERCAP)
            .ok()?
            .filter_map(|entry| package_zone(entry.ok()?.path()))
            .collect();
        (!zones.is_empty()).then_some(Self { zones, used_uj: 0 })
    }

    /// Adds what was used since the last look.
    pub fn read_zone(&mut self) {
        for zone in &mut self.zones {
            if let Some(now) = read_number(&zone.counter) {
                self.used_uj += advance(zone.last_uj, now, zone.range_uj);
                zone.last_uj = now;
            }
        }
    }

    /// Joules since the start.
    pub fn joules(mut self) -> f64 {
        self.read_zone();
        self.used_uj as f64 / 1e6
    }
}

/// A whole package's zone (`intel-rapl:0`), not a part of one (`intel-rapl:0:1`), nor the
/// platform's, which would count packages twice.
fn package_zone(folder: PathBuf) -> Option<Zone> {
    let name = folder.file_name()?.to_str()?;
    let whole = name.starts_with("intel-rapl:") && name.matches(':').count() == 1;
    let label = fs::read_to_string(folder.join("name")).ok()?;
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

/// What a counter went up by, over at most one wrap.
fn advance(before: u64, now: u64, range: u64) -> u64 {
    if now >= before {
        now - before
    } else {
        range.saturating_sub(before) + now
    }
}

fn read_number(file: &std::path::Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
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
