//! Reads SUMO's `net.xml`.
//!
//! Source: SUMO's documentation, "Networks". An edge becomes a link with the edge's number of
//! lanes. Length and speed are those of the lane that the file lists last. From the program of a
//! traffic light, each edge gets the longest green phase of any of its lanes. Internal edges are
//! left out.

use super::xml::{self, Numbers, Part};
use super::{ReadError, length_mm};
use crate::network::{Control, Junction, Link, Ms, Names, Program, RawNetwork};
use std::collections::{BTreeMap, HashMap};

/// A traffic light: its phases, and the positions of each edge in the state strings.
#[derive(Default)]
struct Light {
    offset_ms: i64,
    phases: Vec<(Ms, Vec<u8>)>,
    letters: BTreeMap<u32, Vec<usize>>,
}

/// An edge whose element has begun.
struct Edge {
    name: String,
    ends: (String, String),
    priority: i32,
    lanes: u32,
    length_mm: u32,
    speed: f64,
}

#[derive(Default)]
struct Reading {
    raw: RawNetwork,
    junctions: Numbers,
    edges: Numbers,
    ends: Vec<(String, String)>,
    priorities: Vec<i32>,
    edge: Option<Edge>,
    lights: HashMap<String, Light>,
    light: Option<String>,
    ruled: Vec<(u32, String)>,
    /// The distinct signal programs and their numbers.
    programs: HashMap<Program, u16>,
}

pub(super) fn read(text: &str) -> Result<RawNetwork, ReadError> {
    let mut reading = Reading::default();
    reading.raw.has_coordinates = true;
    xml::each(text, |part| match part {
        Part::Begin(element) => reading.begin(&element),
        Part::End(name) => {
            if name == "edge" {
                reading.end_edge();
            } else if name == "tlLogic" {
                reading.light = None;
            }
            Ok(())
        }
        Part::Text(_) => Ok(()),
    })?;
    reading.finish()
}

impl Reading {
    fn begin(&mut self, element: &xml::Element<'_>) -> Result<(), ReadError> {
        match element.name().as_str() {
            "edge"
                if element
                    .get("function")?
                    .is_none_or(|function| function == "normal") =>
            {
                self.edge = Some(Edge {
                    name: element.need("id")?,
                    ends: (element.need("from")?, element.need("to")?),
                    priority: element.number("priority")?.unwrap_or(0),
                    lanes: 0,
                    length_mm: 0,
                    speed: 0.0,
                });
            }
            "lane" => {
                if let Some(edge) = &mut self.edge {
                    edge.lanes += 1;
                    let length = element.number("length")?.unwrap_or(0.1);
                    edge.length_mm = length_mm(length)
                        .ok_or_else(|| element.error("a lane's length must be 1 mm to 1,000 km"))?;
                    edge.speed = element.number("speed")?.unwrap_or(13.89);
                }
            }
            "tlLogic" => {
                let offset = element.number::<f64>("offset")?.unwrap_or(0.0);
                let id = element.need("id")?;
                let light = self.lights.entry(id.clone()).or_default();
                // A file may contain several programs for a traffic light. We use the first.
                self.light = light.phases.is_empty().then_some(id);
                if light.phases.is_empty() {
                    light.offset_ms = (offset * 1000.0).clamp(-1e12, 1e12) as i64;
                }
            }
            "phase" => {
                let Some(light) = self.light.as_ref().and_then(|id| self.lights.get_mut(id)) else {
                    return Ok(());
                };
                let seconds: f64 = element.number("duration")?.unwrap_or(0.0);
                if !(0.0..=3600.0).contains(&seconds) {
                    return Err(element.error("the duration of a phase must be 0 to 3600 s"));
                }
                light.phases.push((
                    (seconds * 1000.0) as Ms,
                    element.need("state")?.into_bytes(),
                ));
            }
            "junction" if element.get("type")?.is_none_or(|kind| kind != "internal") => {
                let id = element.need("id")?;
                let Some(number) = self.junctions.add(id.clone()) else {
                    return Err(element.error(format!("junction {id} is defined twice")));
                };
                let (x, y) = (
                    element.number("x")?.unwrap_or(0.0),
                    element.number("y")?.unwrap_or(0.0),
                );
                self.raw.junctions.push(Junction {
                    x,
                    y,
                    ..Junction::default()
                });
                self.ruled
                    .push((number, element.get("type")?.unwrap_or_default()));
            }
            "connection" => {
                if let (Some(light), Some(index)) =
                    (element.get("tl")?, element.number::<usize>("linkIndex")?)
                    && let Some(edge) = self.edges.get(&element.need("from")?)
                {
                    self.lights
                        .entry(light)
                        .or_default()
                        .letters
                        .entry(edge)
                        .or_default()
                        .push(index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_edge(&mut self) {
        let Some(edge) = self.edge.take() else { return };
        if edge.lanes == 0 || self.edges.add(edge.name).is_none() {
            return;
        }
        self.raw.links.push(Link {
            from: 0,
            to: 0,
            length_mm: edge.length_mm,
            speed_mm_s: (edge.speed * 1000.0).clamp(100.0, 200_000.0) as u32,
            headway_ms: 0,
            lanes: edge.lanes.min(255) as u8,
            approach: 0,
        });
        self.ends.push(edge.ends);
        self.priorities.push(edge.priority);
    }

    /// Resolves the ends of all edges and the junctions' control. Runs last, because junctions
    /// follow edges in the file.
    fn finish(mut self) -> Result<RawNetwork, ReadError> {
        for (link, (from, to)) in self.raw.links.iter_mut().zip(&self.ends) {
            let find = |id: &str| {
                let number = self.junctions.get(id);
                number.ok_or_else(|| {
                    ReadError::Malformed(format!(
                        "an edge refers to junction {id}, which does not exist"
                    ))
                })
            };
            (link.from, link.to) = (find(from)?, find(to)?);
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.raw.junctions.len()];
        self.raw
            .links
            .iter()
            .enumerate()
            .for_each(|(index, link)| into[link.to as usize].push(index as u32));
        for (junction, kind) in &self.ruled {
            let roads = &into[*junction as usize];
            let control = match kind.as_str() {
                "allway_stop" => Control::Stop,
                "priority" | "priority_stop" => {
                    let most = roads
                        .iter()
                        .map(|&road| self.priorities[road as usize])
                        .max();
                    for &road in roads
                        .iter()
                        .filter(|&&road| Some(self.priorities[road as usize]) == most)
                    {
                        self.raw.links[road as usize].approach = 1;
                    }
                    Control::Priority
                }
                _ => Control::Free,
            };
            self.raw.junctions[*junction as usize].control = control;
        }
        let mut lights: Vec<_> = std::mem::take(&mut self.lights).into_iter().collect();
        lights.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, light) in lights {
            self.set_light(&id, &light, &into)?;
        }
        self.raw.junction_names = Names::new(self.junctions.into_names());
        self.raw.link_names = Names::new(self.edges.into_names());
        Ok(self.raw)
    }

    /// Applies a traffic light to all junctions at which its edges end, with one program.
    fn set_light(&mut self, id: &str, light: &Light, into: &[Vec<u32>]) -> Result<(), ReadError> {
        let cycle_ms: Ms = light.phases.iter().map(|phase| phase.0).sum();
        if light.letters.is_empty() || cycle_ms < 1000 {
            return Ok(());
        }
        let mut greens = vec![(0, cycle_ms)];
        for (&edge, letters) in &light.letters {
            let green = longest_green(&light.phases, letters).ok_or_else(|| {
                ReadError::Malformed(format!(
                    "traffic light {id}: one of its edges never has green"
                ))
            })?;
            let known = greens.iter().position(|&other| other == green);
            let approach = known.unwrap_or(greens.len());
            if known.is_none() {
                greens.push(green);
            }
            let approach = u8::try_from(approach);
            let too_many =
                |_| ReadError::Malformed(format!("traffic light {id}: more than 255 green phases"));
            self.raw.links[edge as usize].approach = approach.map_err(too_many)?;
        }
        let program = Program { cycle_ms, greens };
        let known = self.programs.get(&program).copied();
        let number = known.map_or_else(|| u16::try_from(self.programs.len()), Ok);
        let number =
            number.map_err(|_| ReadError::Malformed("more than 65,536 signal programs".into()))?;
        if known.is_none() {
            self.raw.programs.push(program.clone());
            self.programs.insert(program, number);
        }
        let offset_ms = light.offset_ms.rem_euclid(i64::from(cycle_ms)) as Ms;
        for &edge in light.letters.keys() {
            let junction = self.raw.links[edge as usize].to as usize;
            self.raw.junctions[junction].control = Control::Signal {
                program: number,
                offset_ms,
            };
            // Incoming roads that the traffic light does not control always have green.
            for &road in into[junction]
                .iter()
                .filter(|road| !light.letters.contains_key(road))
            {
                self.raw.links[road as usize].approach = 0;
            }
        }
        Ok(())
    }
}

/// Returns the longest interval within a cycle in which any of these positions is green.
fn longest_green(phases: &[(Ms, Vec<u8>)], letters: &[usize]) -> Option<(Ms, Ms)> {
    let mut best: Option<(Ms, Ms)> = None;
    let (mut now, mut begin) = (0, None);
    for (length, state) in phases {
        let green = letters
            .iter()
            .any(|&letter| matches!(state.get(letter), Some(b'g' | b'G')));
        begin = if green { begin.or(Some(now)) } else { None };
        now += length;
        if let Some(begin) = begin
            && best.is_none_or(|(from, to)| now - begin > to - from)
            && now > begin
        {
            best = Some((begin, now));
        }
    }
    best
}
