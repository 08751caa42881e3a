//! A link and the parameters of the queue model that follow from it.

use super::{HEADWAY_MS_MAX, LINK_TIME_MS_MIN, Mm, Ms, Physics, STORAGE_MAX};

/// A road from one junction to another, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The junction at which the link begins.
    pub from: u32,
    /// The junction at which the link ends.
    pub to: u32,
    /// The length of the link.
    pub length_mm: Mm,
    /// The free speed in millimetres per second.
    pub speed_mm_s: u32,
    /// The minimum time between two cars at the end of the link. It is 3,600,000 divided by the
    /// capacity per hour. 0 means that only [`Physics`] limits the flow.
    pub headway_ms: Ms,
    /// The number of lanes of the link.
    pub lanes: u8,
    /// The approach, which selects the green phase at the junction where the link ends. For
    /// [`Control::Priority`] it is the rank: 0 yields to the others.
    pub approach: u8,
}

/// The parameters of the queue model for one link, computed by [`Network::flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The travel time in free flow.
    pub free_flow_ms: Ms,
    /// The time that a hole (the space of a car that left) takes to move back to the beginning of
    /// the link.
    pub hole_ms: Ms,
    /// The minimum time between two cars.
    pub headway_ms: Ms,
    /// The storage capacity in cars.
    pub storage: u16,
}

impl Link {
    /// Returns the travel time in free flow. The time is that of the link alone.
    /// [`flow`](Self::flow) raises it to [`LINK_TIME_MS_MIN`] if the partition into tiles needs
    /// that.
    pub(crate) fn free_flow_ms(&self) -> Ms {
        let speed = u64::from(self.speed_mm_s);
        ((u64::from(self.length_mm) * 1000 + speed / 2) / speed).clamp(1, 1 << 30) as Ms
    }

    /// Returns the parameters of the queue model. `raised` is whether the link must take
    /// [`LINK_TIME_MS_MIN`] at least. `inner_ms` is the time inside the junction at its end.
    pub(super) fn flow(&self, physics: &Physics, raised: bool, inner_ms: Ms) -> Flow {
        let (length, lanes) = (u64::from(self.length_mm), u64::from(self.lanes));
        let (spacing, reaction) = (
            u64::from(physics.spacing_mm),
            u64::from(physics.reaction_ms),
        );
        let speed = u64::from(self.speed_mm_s);
        let rounded = |a: u64, b: u64| (a + b / 2) / b;
        let free = u64::from(self.free_flow_ms());
        let low = match free < u64::from(LINK_TIME_MS_MIN) && !raised {
            true => 1,
            false => u64::from(LINK_TIME_MS_MIN),
        };
        let free = free.max(low);
        // We use Newell's triangular fundamental diagram. According to it, one car per lane can
        // pass every reaction time plus spacing ÷ speed.
        let lane = reaction + rounded(spacing * 1000, speed);
        let headway = rounded(lane, lanes).max(u64::from(self.headway_ms));
        let headway = rounded(headway * 1_000_000, u64::from(physics.flow_ppm)).max(1);
        let headway = headway.min(u64::from(HEADWAY_MS_MAX));
        let whole = self.whole_storage(physics);
        // Storage is a whole number of cars, but a short link must still carry its full flow. If
        // rounding down has reduced the storage, holes run faster by the same factor. If that is
        // impossible, or if a time was raised to the minimum, the storage grows.
        let hole = rounded(length * reaction, spacing)
            .min((whole * headway).saturating_sub(free))
            .max(low);
        let free = free + u64::from(inner_ms);
        let carried = (free + hole).div_ceil(headway);
        Flow {
            free_flow_ms: free.min(1 << 30) as Ms,
            hole_ms: hole.min(1 << 30) as Ms,
            headway_ms: headway.clamp(1, u64::from(HEADWAY_MS_MAX)) as Ms,
            storage: whole.max(carried).clamp(1, STORAGE_MAX) as u16,
        }
    }

    /// Returns the number of standing cars that fit on the link, at least one per lane.
    pub(super) fn whole_storage(&self, physics: &Physics) -> u64 {
        let places = u64::from(self.length_mm) * u64::from(self.lanes);
        let cars = places * u64::from(physics.storage_ppm) / 1_000_000;
        (cars / u64::from(physics.spacing_mm)).max(u64::from(self.lanes).max(1))
    }
}
