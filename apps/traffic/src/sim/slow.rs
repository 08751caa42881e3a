//! Cars that are slower than the roads allow.
//!
//! The travel time of a link is usually the same for all cars. If some cars are slow, each car has
//! its own. On a road with one lane, a car then follows the slow car ahead of it, because it cannot
//! overtake. With more lanes, it overtakes.
//!
//! If no car is slow, nothing of this costs time or memory.

use super::events::Work;
use super::records::Car;
use super::tile::Tile;
use super::{Rules, Simulation};
use crate::demand::{CarSpeed, Plans};
use crate::network::{Ms, Network, NetworkError, Physics};
use std::sync::Arc;

/// The maximum travel time of a link.
const TRAVEL_MS_MAX: u64 = 1 << 30;
/// The longest time between two cars that follow each other on a link. A longer headway comes from
/// the capacity of the link, which applies at its ends.
const FOLLOW_MS_MAX: Ms = 10_000;

/// The properties of a link from which we compute the travel time of a slow car.
#[derive(Clone, Copy, Debug)]
pub(super) struct Road {
    length_mm: u32,
    /// The part of the travel time that does not depend on the speed, for example the time inside
    /// the junction.
    other_ms: Ms,
    has_one_lane: bool,
}

/// Returns for each link the properties from which we compute the travel time of a slow car, or
/// `None` if no car is slow.
pub(super) fn roads(network: &Network, plans: &Plans, physics: &Physics) -> Option<Arc<Vec<Road>>> {
    let road = |(link, road): (u32, &crate::network::Link)| Road {
        length_mm: road.length_mm,
        other_ms: network.flow(link, physics).free_flow_ms - road.free_flow_ms(),
        has_one_lane: road.lanes <= 1,
    };
    let all = (0..).zip(network.links());
    plans
        .has_speeds()
        .then(|| Arc::new(all.map(road).collect()))
}

impl Rules {
    /// Returns the travel time of the car at a place, on a link that takes `road_ms` in free flow.
    #[inline]
    pub fn travel_ms(&self, link: u32, place: u32, road_ms: Ms) -> Ms {
        match &self.roads {
            None => road_ms,
            Some(roads) => {
                let speed = self.plans.speed_at(self.order(place));
                roads[link as usize].travel_ms(speed, road_ms)
            }
        }
    }
}

impl Road {
    fn travel_ms(&self, speed: CarSpeed, road_ms: Ms) -> Ms {
        if speed == CarSpeed::ROAD {
            return road_ms;
        }
        let drive_ms = u64::from(road_ms.saturating_sub(self.other_ms));
        let shared_ms = drive_ms * 1_000_000 / u64::from(speed.share_ppm);
        let limit_ms = u64::from(self.length_mm) * 1000 / u64::from(speed.max_mm_s);
        let takes_ms = u64::from(self.other_ms) + shared_ms.max(limit_ms);
        takes_ms.min(TRAVEL_MS_MAX).max(u64::from(road_ms)) as Ms
    }
}

impl Work<'_> {
    /// Returns the time at which a car that enters a link now arrives at its end. The car may be
    /// slow, or follow a slow one.
    #[inline(never)]
    pub fn arrival_among_slow_cars(&mut self, entry: u16, car: u32, now: Ms) -> Ms {
        let tile = &mut *self.tile;
        let link = tile.first_link + u32::from(entry);
        let record = &tile.entries[usize::from(entry)];
        let place = tile.cars[car].place;
        let own = now + self.rules.travel_ms(link, place, record.free_flow_ms());
        let roads = self.rules.roads.as_ref();
        if !roads.is_some_and(|roads| roads[link as usize].has_one_lane) {
            return own;
        }
        let follow_ms = record.headway_ms.min(FOLLOW_MS_MAX);
        let last = &mut tile.last_arrivals[usize::from(entry)];
        let at = match *last {
            0 => own,
            last => own.max(last.saturating_add(follow_ms)),
        };
        let at = at.min(now + TRAVEL_MS_MAX as Ms);
        *last = at;
        tile.tally.delay_ms += u64::from(at.saturating_sub(own));
        at
    }
}

impl Tile {
    /// Changes the time that the cars on a link need for the rest of it, because its free-flow time
    /// has changed from `before_ms` to `after_ms`. Every car keeps its place on the link. Returns
    /// the last arrival.
    pub(super) fn scale_rest(
        &mut self,
        (exit, link): (u16, u32),
        (before_ms, after_ms): (Ms, Ms),
        now: Ms,
        rules: &Rules,
    ) -> Option<Ms> {
        let mut cars = Vec::new();
        self.arrival_wheel.each(&self.cars, |place| {
            if self.cars[place].exit == exit {
                cars.push(place);
            }
        });
        let keeps_order = rules
            .roads
            .as_ref()
            .is_some_and(|roads| roads[link as usize].has_one_lane);
        if keeps_order {
            cars.sort_unstable_by_key(|&car| {
                (self.cars[car].at, rules.order(self.cars[car].place))
            });
        }
        let mut last = None;
        for car in cars {
            self.arrival_wheel.remove(&mut self.cars, car);
            let Car { at, place, .. } = self.cars[car];
            let [before_ms, after_ms] =
                [before_ms, after_ms].map(|ms| u64::from(rules.travel_ms(link, place, ms)));
            let rest_ms = u64::from(at.saturating_sub(now)) * after_ms / before_ms.max(1);
            let at = now.saturating_add(rest_ms.min(TRAVEL_MS_MAX) as Ms);
            let at = at.max(last.filter(|_| keeps_order).unwrap_or(0));
            last = Some(last.unwrap_or(0).max(at));
            self.cars[car].at = at;
            self.arrival_wheel.push(&mut self.cars, car);
        }
        last
    }
}

impl Simulation {
    /// Adds a car like [`spawn`](Self::spawn), which drives at most at the given speed, for example
    /// a truck. Returns its number.
    ///
    /// On roads with one lane, other cars cannot overtake it.
    ///
    /// # Errors
    /// Returns an error if the links do not follow each other, or after twelve days.
    pub fn spawn_with_speed(
        &mut self,
        links: &[u32],
        speed: CarSpeed,
    ) -> Result<u32, NetworkError> {
        let car = self.spawn(links)?;
        if speed != CarSpeed::ROAD {
            Arc::make_mut(&mut self.rules.plans).set_last_speed(speed);
            self.notice_slow_cars();
        }
        Ok(car)
    }

    /// Prepares the state for slow cars, if there are some and it is not prepared yet.
    pub(super) fn notice_slow_cars(&mut self) {
        if self.rules.roads.is_none() {
            self.rules.roads = roads(&self.network, &self.rules.plans, &self.rules.physics);
        }
        if self.rules.roads.is_some() {
            for tile in &mut self.tiles {
                tile.last_arrivals.resize(tile.entries.len(), 0);
            }
        }
    }

    /// Returns the time that a car takes on a link in free flow. It is longer than
    /// [`current_free_flow_ms`](Self::current_free_flow_ms) if the car is slower than the road
    /// allows.
    pub fn travel_ms(&self, car: u32, link: u32) -> Ms {
        let road_ms = self.current_free_flow_ms(link);
        match &self.rules.roads {
            Some(roads) if (car as usize) < self.rules.plans.len() => {
                roads[link as usize].travel_ms(self.rules.plans.speed(car), road_ms)
            }
            _ => road_ms,
        }
    }
}
