//! SUMO's vehicle types: which of them drive on roads for cars, and how fast.
//!
//! Source: SUMO's documentation, "Definition of Vehicles, Vehicle Types, and Routes" and "Vehicle
//! Type Parameter Defaults".

use super::CarSpeed;
use crate::network::read::{ReadError, Unused, xml::Element};
use crate::random::Stream;
use std::collections::HashMap;

/// The prefix of the types that SUMO defines itself, such as `DEFAULT_VEHTYPE`.
const BUILT_IN: &str = "DEFAULT_";

/// The properties of a vehicle type that matter in a queue model.
#[derive(Clone, Debug, Default)]
pub(super) struct Type {
    pub speed: CarSpeed,
    /// If vehicles of this type cannot use roads for cars, the reason.
    pub barred: Option<String>,
}

/// The vehicle types of a file, and the distributions of types.
#[derive(Default)]
pub(super) struct Types {
    types: HashMap<String, Type>,
    /// The types of each distribution, with their probabilities.
    distributions: HashMap<String, Vec<(String, f64)>>,
    /// The distribution whose element is open.
    open: Option<String>,
}

impl Types {
    /// Reads a `vType`.
    pub fn add(&mut self, element: &Element<'_>, unused: &mut Unused) -> Result<(), ReadError> {
        let id = element.need("id")?;
        let class = element.get("vClass")?.unwrap_or_default();
        let mut barred = None;
        match class.as_str() {
            "" | "passenger" | "private" | "taxi" | "evehicle" | "hov" | "custom1" | "custom2" => {}
            "bus" | "coach" | "truck" | "trailer" | "delivery" | "motorcycle" | "moped"
            | "emergency" | "authority" | "army" | "vip" => {
                unused.add(format!("vType vClass={class}"));
            }
            _ => {
                unused.add(format!("vType vClass={class}"));
                barred = Some(format!(
                    "its vehicle class {class} does not use roads for cars"
                ));
            }
        }
        let known = [
            "id",
            "vClass",
            "color",
            "maxSpeed",
            "speedFactor",
            "speedDev",
            "probability",
            "guiShape",
            "imgFile",
            "width",
            "height",
            "mass",
            "emissionClass",
            "osgFile",
            "laneChangeModel",
            "personCapacity",
            "containerCapacity",
        ];
        unused.attributes(element, &known)?;
        if element
            .number::<f64>("speedDev")?
            .is_some_and(|dev| dev != 0.0)
        {
            unused.add("vType speedDev");
        }
        let speed = speed(element, &class, unused)?;
        if let Some(open) = &self.open {
            let probability = element.number("probability")?.unwrap_or(1.0);
            let types = self.distributions.entry(open.clone()).or_default();
            types.push((id.clone(), probability));
        }
        self.types.insert(id, Type { speed, barred });
        Ok(())
    }

    /// Reads the begin of a `vTypeDistribution`. Its types follow inside it, or it lists them.
    pub fn begin_distribution(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let id = element.need("id")?;
        let listed = element.get("vTypes")?.unwrap_or_default();
        let shares = element.get("probabilities")?.unwrap_or_default();
        let mut shares = shares.split_ascii_whitespace().map(str::parse::<f64>);
        let mut types = Vec::new();
        for name in listed.split_ascii_whitespace() {
            let share = shares.next().unwrap_or(Ok(1.0));
            let share = share
                .map_err(|_| element.error("the probability of a vehicle type is not a number"))?;
            types.push((name.to_owned(), share));
        }
        self.distributions.insert(id.clone(), types);
        self.open = Some(id);
        Ok(())
    }

    pub fn end_distribution(&mut self) {
        self.open = None;
    }

    /// Returns the type of a vehicle. A vehicle whose type is a distribution draws one of its types
    /// at random, but always the same one.
    pub fn of(&self, name: Option<&str>, vehicle: &str, seed: u64, unused: &mut Unused) -> Type {
        let Some(name) = name else {
            return Type::default();
        };
        let drawn = self.distributions.get(name).and_then(|types| {
            let all: f64 = types.iter().map(|one| one.1).sum();
            let mut stream = Stream::of(seed, "vehicle type", 0);
            vehicle.bytes().for_each(|byte| stream.mix(u64::from(byte)));
            let mut left = stream.unit() * all;
            let mut fits = types.iter().filter(|one| {
                left -= one.1;
                left < 0.0
            });
            fits.next().or(types.last())
        });
        let name = drawn.map_or(name, |one| one.0.as_str());
        if let Some(found) = self.types.get(name) {
            return found.clone();
        }
        if !name.starts_with(BUILT_IN) {
            unused.add(format!("type={name} (not defined in the file)"));
        }
        Type::default()
    }
}

/// Returns the speed of a type, from its limit and its factor, or from the default of its class.
fn speed(element: &Element<'_>, class: &str, unused: &mut Unused) -> Result<CarSpeed, ReadError> {
    // The limits of SUMO's classes in metres per second.
    let default = match class {
        "bus" | "coach" => 100.0 / 3.6,
        "truck" | "trailer" => 130.0 / 3.6,
        "moped" => 60.0 / 3.6,
        _ => 200.0 / 3.6,
    };
    let limit = element.number::<f64>("maxSpeed")?.unwrap_or(default);
    if limit.is_nan() || limit <= 0.0 {
        return Err(element.error("the maxSpeed of a vehicle type must be more than 0"));
    }
    // SUMO draws the factor of each vehicle from a distribution, and writes its parameters in
    // parentheses. We use the mean.
    let text = element.get("speedFactor")?.unwrap_or_default();
    let factor = match text.split_once('(') {
        Some((_, parameters)) => {
            let mut parameters = parameters.trim_end_matches(')').split(',').map(str::trim);
            let mean = parameters.next().unwrap_or_default();
            if parameters.next().is_some_and(|dev| dev.parse() != Ok(0.0)) {
                unused.add("vType speedFactor (its deviation)");
            }
            mean.to_owned()
        }
        None => text,
    };
    let factor = match factor.as_str() {
        "" => 1.0,
        text => text
            .parse::<f64>()
            .ok()
            .filter(|factor| *factor > 0.0)
            .ok_or_else(|| element.error(format!("the speedFactor '{text}' is not valid")))?,
    };
    // The travel time of a road is the least that a car can take, so no car drives faster.
    if factor > 1.0 {
        unused.add("vType speedFactor (more than 1)");
    }
    Ok(CarSpeed {
        max_mm_s: (limit * 1000.0).min(f64::from(u32::MAX)) as u32,
        share_ppm: (factor.min(1.0) * 1e6).round() as u32,
    }
    .in_range())
}
