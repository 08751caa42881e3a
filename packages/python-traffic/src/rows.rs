//! The rows of structured arrays. NumPy reads them in place.

use creel_traffic::sim::CarPosition;
use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;

/// The position of a car.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct PositionRow(CarPosition);

/// Returns positions as rows, without copying them.
pub fn positions(positions: Vec<CarPosition>) -> Vec<PositionRow> {
    // The compiler collects such a vector in place, because both types have the same layout.
    positions.into_iter().map(PositionRow).collect()
}

/// A trip that has ended. Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TripRow {
    /// The time at which the car entered its first road, and the time of its arrival.
    pub depart: f64,
    pub arrival: f64,
    /// The time for which it waited to enter its first road.
    pub depart_delay: f64,
    pub duration: f64,
    /// The length of its route in metres.
    pub length: f64,
    pub time_loss: f64,
    pub car: u32,
    /// The first and the last road.
    pub from: u32,
    pub to: u32,
    pub reroutes: u32,
}

/// The counts and times of a road in an interval.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EdgeRow {
    /// The time that cars have spent on the road in seconds.
    pub seconds: f64,
    /// The time that the cars which have left the road took for it in seconds.
    pub took: f64,
    pub entered: u32,
    pub left: u32,
}

/// An event of a car.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Change {
    pub time_ms: u32,
    pub car: u32,
    pub road: u32,
    pub kind: u32,
}

fn dtype<'py>(py: Python<'py>, fields: &[(&str, &str)]) -> Bound<'py, PyArrayDescr> {
    let fields: Vec<(&str, &str)> = fields.to_vec();
    PyArrayDescr::new(py, fields).expect("the fields of a row have valid types")
}

macro_rules! rows {
    ($row:ty, $bytes:literal, [$($name:literal: $kind:literal),*]) => {
        const _: () = assert!(size_of::<$row>() == $bytes);

        // SAFETY: The row has the C layout, and contains only numbers of the types and in the order
        // of the descriptor. The assertion above excludes padding.
        unsafe impl Element for $row {
            const IS_COPY: bool = true;

            fn get_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
                dtype(py, &[$(($name, $kind)),*])
            }

            fn clone_ref(&self, _: Python<'_>) -> Self {
                *self
            }
        }
    };
}

rows!(PositionRow, 32, ["x": "f8", "y": "f8", "car": "u4", "road": "u4", "heading": "f4", "speed": "f4"]);
rows!(TripRow, 64, ["depart": "f8", "arrival": "f8", "depart_delay": "f8", "duration": "f8", "length": "f8", "time_loss": "f8", "car": "u4", "from": "u4", "to": "u4", "reroutes": "u4"]);
rows!(EdgeRow, 24, ["seconds": "f8", "took": "f8", "entered": "u4", "left": "u4"]);
rows!(Change, 16, ["time_ms": "u4", "car": "u4", "road": "u4", "kind": "u4"]);
