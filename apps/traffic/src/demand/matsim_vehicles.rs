//! MATSim's vehicles: how fast the vehicle of each person is.
//!
//! Source: `vehicleDefinitions_v2.0.xsd`. Every element that could change the result in a queue
//! model, and that we do not use, is counted.

use super::CarSpeed;
use crate::network::read::{
    ReadError, Unused,
    xml::{self, Element, Part},
};
use std::collections::HashMap;

/// The mode of the legs that we simulate.
const MODE: &str = "car";

/// Elements that do not change how a vehicle drives in a queue model. MATSim computes the room that
/// a vehicle takes from its passenger car equivalents, and not from its length.
const NO_EFFECT: [&str; 19] = [
    "vehicleDefinitions",
    "attributes",
    "attribute",
    "description",
    "capacity",
    "seats",
    "standingRoom",
    "freightCapacity",
    "volume",
    "weight",
    "other",
    "length",
    "width",
    "costInformation",
    "engineInformation",
    "fuelType",
    "gasConsumption",
    "accessTime",
    "egressTime",
];

/// The vehicles of a scenario and their types.
#[derive(Default)]
pub(super) struct Vehicles {
    types: HashMap<String, CarSpeed>,
    /// The type of each vehicle.
    type_of: HashMap<String, String>,
}

/// What the plans of a person say about the vehicle of the person.
#[derive(Default)]
pub(super) struct Driven {
    /// The vehicle of the route.
    pub in_route: Option<String>,
    /// The vehicle in the attributes of the person.
    pub owned: Option<String>,
    /// The type of vehicle in the attributes of the person.
    pub kind: Option<String>,
}

impl Vehicles {
    /// Reads a file.
    pub fn read(&mut self, text: &str, unused: &mut Unused) -> Result<(), ReadError> {
        let mut kind = String::new();
        xml::each(text, |part| {
            let Part::Begin(element) = part else {
                return Ok(());
            };
            let name = element.name();
            match name.as_str() {
                "vehicleType" => {
                    kind = element.need("id")?;
                    unused.attributes(&element, &["id"])?;
                    self.types.insert(kind.clone(), CarSpeed::ROAD);
                }
                "vehicle" => {
                    let of = element.need("type")?;
                    if !self.types.contains_key(&of) {
                        return Err(element.error(format!("there is no vehicleType {of}")));
                    }
                    self.type_of.insert(element.need("id")?, of);
                }
                "maximumVelocity" => {
                    let limit = positive(&element, "meterPerSecond")?;
                    let max_mm_s = (limit * 1000.0).clamp(1.0, f64::from(u32::MAX)) as u32;
                    if let Some(speed) = self.types.get_mut(&kind) {
                        speed.max_mm_s = max_mm_s;
                    }
                }
                "passengerCarEquivalents" if positive(&element, "pce")? != 1.0 => {
                    unused.add("passengerCarEquivalents pce");
                }
                "flowEfficiencyFactor" if positive(&element, "factor")? != 1.0 => {
                    unused.add("flowEfficiencyFactor factor");
                }
                "passengerCarEquivalents"
                | "flowEfficiencyFactor"
                | "networkMode"
                | "doorOperation" => {}
                name if NO_EFFECT.contains(&name) => {}
                _ => unused.add(name),
            }
            Ok(())
        })
    }

    /// Returns how fast a person drives. In MATSim, the route or the person names the vehicle, or
    /// the person has one with its own id, or all persons have the type that is called like their
    /// mode.
    pub fn speed(&self, person: &str, driven: &Driven, unused: &mut Unused) -> CarSpeed {
        let own = [person.to_owned(), format!("{person}_{MODE}")];
        let named = [&driven.in_route, &driven.owned];
        let named = named.into_iter().flatten();
        let mut vehicles = named.clone().chain(&own);
        if let Some(kind) = vehicles.find_map(|vehicle| self.type_of.get(vehicle)) {
            return self.types[kind];
        }
        // MATSim creates a missing vehicle under the id of the person.
        if named.clone().any(|vehicle| !own.contains(vehicle)) {
            unused.add("vehicle (not defined in the files)");
        }
        match &driven.kind {
            Some(kind) => self.types.get(kind).copied().unwrap_or_else(|| {
                if kind != MODE {
                    unused.add(format!("vehicleType {kind} (not defined in the files)"));
                }
                CarSpeed::ROAD
            }),
            None => self.types.get(MODE).copied().unwrap_or(CarSpeed::ROAD),
        }
    }
}

fn positive(element: &Element<'_>, name: &str) -> Result<f64, ReadError> {
    let value = element.number::<f64>(name)?.filter(|value| *value > 0.0);
    value.ok_or_else(|| {
        element.error(format!(
            "<{}> needs a positive number for {name}",
            element.name()
        ))
    })
}

/// Returns the value of the mode in an attribute of a person that lists a value per mode, for
/// example `{"car":"truck_7","bike":"bike_7"}`.
pub(super) fn of_mode(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
    let mut pairs = words.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == MODE)
        .map(|pair| pair[1].to_owned())
}
