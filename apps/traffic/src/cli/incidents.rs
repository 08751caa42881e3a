//! `--incidents`: a time table of closures and other changes of roads.

use std::path::Path;

use anyhow::Context;
use creel::Pool;
use creel_traffic::network::{Ms, Network};
use creel_traffic::sim::Simulation;

use super::bad_data;

/// A line of the time table: a change of a road at a given time.
#[derive(Clone, Copy, Debug)]
struct Incident {
    at_ms: Ms,
    link: u32,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Close,
    Open,
    /// Sets the capacity of the road, given as the minimum time between two cars. `None` restores
    /// the capacity of the network.
    Capacity(Option<Ms>),
    /// Sets the free speed of the road in mm/s. `None` restores the speed of the network.
    Speed(Option<u32>),
}

/// The incidents of a run, in the order of time. Those from the index `next` on have not happened
/// yet.
#[derive(Debug, Default)]
pub struct Incidents {
    all: Vec<Incident>,
    next: usize,
    /// The roads that are closed now.
    closed: Vec<u32>,
}

/// The interval at which we search again for cars that want to use a closed road. We need to repeat
/// the search, because new cars depart all the time.
const LOOK_AGAIN_MS: Ms = 10_000;

impl Incidents {
    /// Reads a time table. Incidents before `now_ms` have happened already, because the run resumes
    /// from a snapshot.
    pub fn read(path: &Path, network: &Network, now_ms: Ms) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let links = network.links_by_name();
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("time,") {
                continue;
            }
            let incident = incident(line, &links).map_err(|reason| {
                bad_data(format!("{}, line {number}: {reason}", path.display()))
            })?;
            all.push(incident);
        }
        // The sort is stable, so incidents at the same time keep their order.
        all.sort_by_key(|incident| incident.at_ms);
        let next = all.partition_point(|incident| incident.at_ms < now_ms);
        let mut closed = Vec::new();
        for incident in &all[..next] {
            note(&mut closed, incident);
        }
        Ok(Self { all, next, closed })
    }

    /// Returns the time at which [`apply`](Self::apply) must be called next.
    pub fn next_ms(&self, now_ms: Ms) -> Option<Ms> {
        let incident = self.all.get(self.next).map(|incident| incident.at_ms);
        let again = (!self.closed.is_empty()).then(|| (now_ms / LOOK_AGAIN_MS + 1) * LOOK_AGAIN_MS);
        incident.into_iter().chain(again).min()
    }

    /// Applies all incidents up to now. Cars that wanted to use a closed road take another way, if
    /// there is one.
    pub fn apply(&mut self, simulation: &mut Simulation, pool: &Pool) -> anyhow::Result<()> {
        while let Some(incident) = self.all.get(self.next).copied() {
            if incident.at_ms > simulation.now_ms() {
                break;
            }
            self.next += 1;
            let link = incident.link;
            let changed = match incident.change {
                Change::Close => simulation.set_closed(link, true),
                Change::Open => simulation.set_closed(link, false),
                Change::Capacity(headway_ms) => simulation.set_headway(link, headway_ms),
                Change::Speed(speed_mm_s) => simulation.set_speed(link, speed_mm_s),
            };
            changed.map_err(|error| bad_data(error.to_string()))?;
            note(&mut self.closed, &incident);
            if matches!(incident.change, Change::Close) {
                simulation.reroute_around(pool, link);
            }
        }
        // The times do not depend on where a run begins, so a resumed run has the same result.
        if simulation.now_ms().is_multiple_of(LOOK_AGAIN_MS) {
            for &link in &self.closed {
                simulation.reroute_around(pool, link);
            }
        }
        Ok(())
    }
}

/// Updates the list of closed roads after an incident.
fn note(closed: &mut Vec<u32>, incident: &Incident) {
    match incident.change {
        Change::Close if !closed.contains(&incident.link) => closed.push(incident.link),
        Change::Open => closed.retain(|&link| link != incident.link),
        _ => {}
    }
}

/// Parses a line: `TIME,ROAD,close`, `TIME,ROAD,open`, `TIME,ROAD,capacity,CARS_PER_HOUR` or
/// `TIME,ROAD,speed,KM_PER_HOUR`. Without its last value, `capacity` or `speed` restores the value
/// of the network.
fn incident(
    line: &str,
    links: &std::collections::HashMap<String, u32>,
) -> Result<Incident, String> {
    let parts: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time, road, change, ref value @ ..] = parts[..] else {
        return Err("expected TIME,ROAD,CHANGE, for example 3600,main,close".into());
    };
    let seconds = time
        .parse::<u32>()
        .ok()
        .filter(|&seconds| seconds <= 3_000_000);
    let seconds =
        seconds.ok_or_else(|| format!("expected a time in seconds, but found '{time}'"))?;
    let link = *links
        .get(road)
        .ok_or_else(|| format!("the network has no road {road}"))?;
    let number = || match value {
        [] | [""] => Ok(None),
        [text] => match text.parse::<f64>() {
            Ok(value) if value > 0.0 && value < 1e6 => Ok(Some(value)),
            _ => Err(format!("expected a number, but found '{text}'")),
        },
        _ => Err("expected at most one value after the kind of change".to_owned()),
    };
    let change = match change {
        "close" => Change::Close,
        "open" => Change::Open,
        "capacity" => {
            Change::Capacity(number()?.map(|per_hour| (3_600_000.0 / per_hour).max(1.0) as Ms))
        }
        "speed" => Change::Speed(number()?.map(|kmh| (kmh * 1000.0 / 3.6) as u32)),
        other => {
            return Err(format!(
                "unknown change '{other}': expected close, open, capacity or speed"
            ));
        }
    };
    Ok(Incident {
        at_ms: seconds * 1000,
        link,
        change,
    })
}
