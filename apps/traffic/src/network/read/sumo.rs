//! Reads SUMO's `net.xml`.
//!
//! Source: SUMO's documentation, "Networks". An edge becomes a link with as many lanes as passenger
//! cars may use, and the speed of the fastest of them. Edges without such a lane are left out, and
//! so are internal edges. The right-of-way matrix of a junction (`<request>`) determines which
//! movements yield, and `<roundabout>` lists the edges of a roundabout.

use super::lights::{Greens, Light};
use super::right_of_way::{self, Connection, Node};
use super::sumo_attributes::{CONNECTION, EDGE, JUNCTION, LANE, LIGHT, PHASE, is_open};
use super::unused::Unused;
use super::xml::{self, Element, Numbers, Part};
use super::{ReadError, length_mm};
use crate::network::{Control, Junction, Link, Ms, Names, Program, RawNetwork};
use std::collections::{HashMap, HashSet};

/// An edge whose element has begun.
struct Edge {
    name: String,
    ends: (String, String),
    priority: i32,
    lanes: u32,
    length_mm: u32,
    speed: f64,
    /// Whether passenger cars may use each lane.
    open: Vec<bool>,
}

#[derive(Default)]
struct Reading {
    /// Whether to use all lanes, including those that passenger cars may not use. We do so for
    /// networks without any lane for passenger cars.
    any: bool,
    raw: RawNetwork,
    junctions: Numbers,
    nodes: Vec<Node>,
    node: Option<usize>,
    edges: Numbers,
    ends: Vec<(String, String)>,
    priorities: Vec<i32>,
    open_lanes: Vec<Vec<bool>>,
    /// The time that a car takes on each lane inside a junction, in seconds.
    inner: HashMap<String, f64>,
    /// For each lane inside a junction, the lane that follows it inside the same junction.
    inner_next: HashMap<String, String>,
    /// The edges without a lane for passenger cars.
    closed: HashSet<String>,
    edge: Option<Edge>,
    lights: HashMap<String, Light>,
    light: Option<String>,
    connections: Vec<Connection>,
    /// The pairs of edges that have a connection. All other pairs are movements that the file does
    /// not allow, and we count them as unused.
    allowed: HashSet<(u32, u32)>,
    rings: Vec<Vec<String>>,
    /// The distinct signal programs and their numbers.
    programs: HashMap<Program, u16>,
    unused: Unused,
}

pub(super) fn read(text: &str) -> Result<RawNetwork, ReadError> {
    let raw = read_open(text, false)?;
    if !raw.links.is_empty() {
        return Ok(raw);
    }
    // The network has no lane for passenger cars, for example because it consists of rails. In this
    // case we use all lanes, and report that.
    let mut raw = read_open(text, true)?;
    if !raw.links.is_empty() {
        raw.unused
            .add("lane allow (none is for passenger cars, so all are used)");
    }
    Ok(raw)
}

/// Reads the edges for passenger cars, or for `any` vehicle.
fn read_open(text: &str, any: bool) -> Result<RawNetwork, ReadError> {
    let mut reading = Reading {
        any,
        ..Reading::default()
    };
    reading.raw.has_coordinates = true;
    xml::each(text, |part| match part {
        Part::Begin(element) => reading.begin(&element),
        Part::End(name) => {
            match name.as_str() {
                "edge" => reading.end_edge()?,
                "tlLogic" => reading.light = None,
                "junction" => reading.node = None,
                _ => {}
            }
            Ok(())
        }
        Part::Text(_) => Ok(()),
    })?;
    reading.finish()
}

impl Reading {
    fn begin(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let name = element.name();
        match name.as_str() {
            "edge" => self.begin_edge(element)?,
            "lane" => self.lane(element)?,
            "tlLogic" => self.begin_light(element)?,
            "phase" => self.phase(element)?,
            "junction" => self.junction(element)?,
            "request" => self.request(element)?,
            "connection" => self.connection(element)?,
            "roundabout" => {
                let edges = element.need("edges")?;
                let edges = edges.split_ascii_whitespace().map(str::to_owned);
                self.rings.push(edges.collect());
            }
            "net" => {
                if element
                    .get("lefthand")?
                    .is_some_and(|text| text == "true" || text == "1")
                {
                    self.unused.add("net lefthand");
                }
            }
            // We skip these elements without a note, because they cannot change how cars drive in a
            // queue model.
            "location" | "type" | "param" | "neigh" => {}
            // The speed of a class of vehicles on a type of edge.
            "restriction" => {
                let class = element.get("vClass")?;
                if class.is_some_and(|class| matches!(class.as_str(), "passenger" | "all")) {
                    self.unused.add("restriction vClass=passenger");
                }
            }
            _ => self.unused.add(name),
        }
        Ok(())
    }

    fn begin_edge(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let function = element.get("function")?;
        match function.as_deref() {
            None | Some("normal" | "connector") => {}
            Some("internal" | "crossing" | "walkingarea") => return Ok(()),
            Some(other) => {
                self.unused.add(format!("edge function={other}"));
                return Ok(());
            }
        }
        self.unused.attributes(element, &EDGE)?;
        self.edge = Some(Edge {
            name: element.need("id")?,
            ends: (element.need("from")?, element.need("to")?),
            priority: element.number("priority")?.unwrap_or(0),
            lanes: 0,
            length_mm: 0,
            speed: 0.0,
            open: Vec::new(),
        });
        Ok(())
    }

    fn lane(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let Some(edge) = &mut self.edge else {
            let length: f64 = element.number("length")?.unwrap_or(0.0);
            let speed: f64 = element.number("speed")?.unwrap_or(13.89);
            if let Some(id) = element.get("id")?.filter(|_| length > 0.0 && speed > 0.0) {
                self.inner.insert(id, length / speed);
            }
            return Ok(());
        };
        let open = self.any || is_open(element)?;
        let index = element.number("index")?.unwrap_or(edge.open.len());
        if index > 10_000 {
            return Err(element.error("a lane's index must be at most 10,000"));
        }
        edge.open.resize(edge.open.len().max(index + 1), false);
        edge.open[index] = open;
        if !open {
            return Ok(());
        }
        self.unused.attributes(element, &LANE)?;
        let speed = element.number("speed")?.unwrap_or(13.89);
        if edge.lanes > 0 && speed != edge.speed {
            self.unused
                .add("lane speed (not that of the fastest lane of its edge)");
        }
        edge.lanes += 1;
        let length = element.number("length")?.unwrap_or(0.1);
        edge.length_mm = length_mm(length)
            .ok_or_else(|| element.error("a lane's length must be 1 mm to 1,000 km"))?;
        edge.speed = edge.speed.max(speed);
        Ok(())
    }

    fn end_edge(&mut self) -> Result<(), ReadError> {
        let Some(edge) = self.edge.take() else {
            return Ok(());
        };
        if edge.lanes == 0 {
            if !edge.open.is_empty() {
                self.closed.insert(edge.name);
            }
            return Ok(());
        }
        if self.edges.get(&edge.name).is_some() {
            let name = edge.name;
            return Err(ReadError::Malformed(format!(
                "edge {name} is defined twice"
            )));
        }
        if !(0.1..=200.0).contains(&edge.speed) {
            self.unused.add("lane speed (beyond 0.1 to 200 m/s)");
        }
        if edge.lanes > 255 {
            self.unused.add("lane (more than 255 of one edge)");
        }
        self.edges.add(edge.name);
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
        self.open_lanes.push(edge.open);
        Ok(())
    }

    fn begin_light(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let offset = element.number::<f64>("offset")?.unwrap_or(0.0);
        self.unused.attributes(element, &LIGHT)?;
        let id = element.need("id")?;
        let kind = element.get("type")?.unwrap_or_default();
        if !matches!(kind.as_str(), "" | "static" | "off") {
            self.unused.add(format!("tlLogic type={kind}"));
        }
        let light = self.lights.entry(id.clone()).or_default();
        // A file may contain several programs for a traffic light. Like SUMO, we use the last.
        if !light.phases.is_empty() {
            self.unused.add("tlLogic (an earlier program)");
            light.phases.clear();
        }
        self.light = Some(id);
        light.is_actuated = !matches!(kind.as_str(), "" | "static" | "off");
        light.offset_ms = (offset * 1000.0).clamp(-1e12, 1e12) as i64;
        Ok(())
    }

    fn phase(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let Some(light) = self.light.as_ref().and_then(|id| self.lights.get_mut(id)) else {
            return Ok(());
        };
        let mut seconds: f64 = element.number("duration")?.unwrap_or(0.0);
        // A phase of an actuated light ends early if no further cars come. We therefore use its
        // shortest duration.
        let shortest: Option<f64> = element.number("minDur")?;
        seconds = shortest.filter(|_| light.is_actuated).unwrap_or(seconds);
        if seconds.is_nan() || seconds < 0.0 {
            return Err(element.error("the duration of a phase must not be negative"));
        }
        if !light.add_phase(seconds, element.need("state")?.into_bytes()) {
            self.unused.add("phase duration (beyond 11 days)");
        }
        self.unused.attributes(element, &PHASE)
    }

    fn junction(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let kind = element.get("type")?.unwrap_or_default();
        if kind == "internal" {
            return Ok(());
        }
        self.unused.attributes(element, &JUNCTION)?;
        if matches!(
            kind.as_str(),
            "rail_crossing" | "traffic_light_right_on_red"
        ) {
            self.unused.add(format!("junction type={kind}"));
        }
        let id = element.need("id")?;
        if self.junctions.add(id.clone()).is_none() {
            return Err(element.error(format!("junction {id} is defined twice")));
        }
        let (x, y) = (
            element.number("x")?.unwrap_or(0.0),
            element.number("y")?.unwrap_or(0.0),
        );
        self.raw.junctions.push(Junction {
            x,
            y,
            ..Junction::default()
        });
        let lanes = element.get("incLanes")?.unwrap_or_default();
        self.node = Some(self.nodes.len());
        self.nodes.push(Node {
            kind,
            lanes: lanes.split_ascii_whitespace().map(str::to_owned).collect(),
            responses: HashMap::new(),
        });
        Ok(())
    }

    fn request(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let index: Option<usize> = element.number("index")?;
        let response = element.get("response")?.unwrap_or_default();
        if let (Some(node), Some(index)) = (self.node, index) {
            // SUMO writes the bits in reverse order: the first movement is the last character.
            let mut bits = response.into_bytes();
            bits.reverse();
            self.nodes[node].responses.insert(index, bits);
        }
        Ok(())
    }

    fn connection(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let (from, to) = (element.need("from")?, element.need("to")?);
        if from.starts_with(':') {
            let lane = element.get("fromLane")?.unwrap_or_default();
            if let Some(via) = element.get("via")? {
                self.inner_next.insert(format!("{from}_{lane}"), via);
            }
            return Ok(());
        }
        let (Some(from), Some(to)) = (self.edges.get(&from), self.edges.get(&to)) else {
            return Ok(());
        };
        let lane: u32 = element.number("fromLane")?.unwrap_or(0);
        let to_lane: u32 = element.number("toLane")?.unwrap_or(0);
        let open = |edge: u32, lane: u32| {
            let lanes = &self.open_lanes[edge as usize];
            lanes.get(lane as usize).copied().unwrap_or(true)
        };
        if !(open(from, lane) && open(to, to_lane) && (self.any || is_open(element)?)) {
            return Ok(());
        }
        self.unused.attributes(element, &CONNECTION)?;
        self.allowed.insert((from, to));
        if let (Some(light), Some(index)) =
            (element.get("tl")?, element.number::<i64>("linkIndex")?)
            && let Ok(index) = usize::try_from(index)
        {
            // A negative index means that the light does not control this movement.
            let light = self.lights.entry(light).or_default();
            let letters = light.letters.entry(from).or_default();
            // We leave out turns back into the same road, because hardly any car turns around.
            match element.get("dir")?.as_deref() {
                Some("t") => letters.around.push(index),
                _ => letters.others.push(index),
            }
        }
        self.connections.push(Connection {
            from,
            to,
            lane,
            via: element.get("via")?,
            dir: element.get("dir")?.unwrap_or_default(),
        });
        Ok(())
    }

    /// Resolves the ends of all edges, and sets the control of all junctions. We do this last,
    /// because junctions follow the edges in the file.
    fn finish(mut self) -> Result<RawNetwork, ReadError> {
        for (link, (from, to)) in self.raw.links.iter_mut().zip(&self.ends) {
            let find = |id: &str| {
                let number = self.junctions.get(id);
                number.ok_or_else(|| {
                    ReadError::Malformed(format!(
                        "an edge begins or ends at the junction {id}, which does not exist"
                    ))
                })
            };
            (link.from, link.to) = (find(from)?, find(to)?);
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.raw.junctions.len()];
        let mut out = into.clone();
        for (index, link) in (0..).zip(&self.raw.links) {
            into[link.to as usize].push(index);
            out[link.from as usize].push(index);
        }
        self.count_banned_turns(&into, &out);
        let mut lights: Vec<_> = std::mem::take(&mut self.lights).into_iter().collect();
        lights.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, light) in lights {
            self.set_light(&light, &into)?;
        }
        for name in self.rings.iter().flatten() {
            if self.edges.get(name).is_none() && !self.closed.contains(name) {
                return Err(ReadError::Malformed(format!(
                    "a roundabout refers to edge {name}, which does not exist"
                )));
            }
        }
        let rings = self.rings.iter().map(|ring| {
            let edges = ring.iter().filter_map(|name| self.edges.get(name));
            edges.collect::<Vec<u32>>()
        });
        self.raw.rings = rings.collect();
        let mut at: Vec<Vec<usize>> = vec![Vec::new(); self.raw.junctions.len()];
        for (index, connection) in self.connections.iter().enumerate() {
            at[self.raw.links[connection.from as usize].to as usize].push(index);
        }
        for (junction, connections) in at.iter().enumerate() {
            self.set_control(junction, &into[junction], connections);
        }
        self.raw.inner_ms = self.inner_times();
        self.raw.junction_names = Names::new(self.junctions.into_names());
        self.raw.link_names = Names::new(self.edges.into_names());
        self.raw.unused = self.unused;
        Ok(self.raw)
    }

    /// Returns the mean time inside the junction at the end of each edge, over its movements.
    fn inner_times(&self) -> Vec<Ms> {
        let mut sums = vec![(0.0, 0_u32); self.raw.links.len()];
        // We leave out turns back into the same road, because hardly any car turns around.
        for connection in self.connections.iter().filter(|one| one.dir != "t") {
            let (mut seconds, mut lane) = (0.0, connection.via.as_deref());
            // A movement has at most two lanes inside a junction.
            for _ in 0..2 {
                seconds += lane.and_then(|lane| self.inner.get(lane)).unwrap_or(&0.0);
                lane = lane
                    .and_then(|lane| self.inner_next.get(lane))
                    .map(|lane| &**lane);
            }
            let sum = &mut sums[connection.from as usize];
            *sum = (sum.0 + seconds, sum.1 + 1);
        }
        if sums.iter().all(|sum| sum.0 == 0.0) {
            return Vec::new();
        }
        let mean = |(sum, count): (f64, u32)| (sum * 1000.0 / f64::from(count.max(1))) as Ms;
        sums.into_iter().map(|sum| mean(sum).min(60_000)).collect()
    }

    /// Counts the movements that the file does not allow. Turning around does not count.
    fn count_banned_turns(&mut self, into: &[Vec<u32>], out: &[Vec<u32>]) {
        if self.connections.is_empty() {
            return;
        }
        let links = &self.raw.links;
        let mut banned = 0;
        for (into, out) in into.iter().zip(out) {
            let turns = into
                .iter()
                .flat_map(|&from| out.iter().map(move |&to| (from, to)));
            banned += turns
                .filter(|turn| !self.allowed.contains(turn))
                .filter(|&(from, to)| links[from as usize].from != links[to as usize].to)
                .count();
        }
        self.unused
            .add_many("connection (a turn without one)", banned as u64);
    }

    /// Sets the control of a junction without a traffic light.
    fn set_control(&mut self, junction: usize, into: &[u32], connections: &[usize]) {
        if matches!(self.raw.junctions[junction].control, Control::Signal { .. }) {
            return;
        }
        let node = &self.nodes[junction];
        let is_ruled = match node.kind.as_str() {
            "allway_stop" => {
                self.raw.junctions[junction].control = Control::Stop;
                return;
            }
            "priority" | "priority_stop" => true,
            "right_before_left" | "left_before_right" => !node.responses.is_empty(),
            // This junction has a traffic light that is off, or that the file does not define. Cars
            // then follow the right-of-way rules.
            kind => kind.starts_with("traffic_light") && !node.responses.is_empty(),
        };
        if !is_ruled {
            return;
        }
        if !node.responses.is_empty() {
            let connections = connections.iter().map(|&index| &self.connections[index]);
            let yields = right_of_way::yields(node, connections.collect(), &self.edges);
            if !yields.is_empty() {
                self.raw.junctions[junction].control = Control::Priority;
                self.raw.yields.extend(yields);
            }
            return;
        }
        let priority = |&&road: &&u32| self.priorities[road as usize];
        let most = into.iter().map(|road| priority(&road)).max();
        for &road in into.iter().filter(|road| Some(priority(road)) == most) {
            self.raw.links[road as usize].approach = 1;
        }
        self.raw.junctions[junction].control = Control::Priority;
    }

    /// Applies a traffic light to all junctions at which its edges end, with one program.
    fn set_light(&mut self, light: &Light, into: &[Vec<u32>]) -> Result<(), ReadError> {
        let cycle_ms: Ms = light.cycle_ms();
        let (greens_of, without) = light.greens();
        if light.letters.is_empty() {
            return Ok(());
        }
        let Greens::Of(greens_of) = greens_of else {
            self.unused.add("tlLogic (off, or shorter than 1 s)");
            return Ok(());
        };
        self.unused
            .add_many("tlLogic (an edge without green)", without as u64);
        let mut greens = vec![vec![(0, cycle_ms)]];
        for (&edge, green) in &greens_of {
            let known = greens.iter().position(|other| other == green);
            let approach = known.unwrap_or(greens.len());
            let Ok(number) = u8::try_from(approach) else {
                self.unused.add("tlLogic (more than 255 green phases)");
                continue;
            };
            if known.is_none() {
                greens.push(green.clone());
            }
            self.raw.links[edge as usize].approach = number;
        }
        let further = greens.iter().enumerate().flat_map(|(approach, greens)| {
            let further = greens.iter().skip(1);
            further.map(move |&green| (approach as u8, green))
        });
        let program = Program {
            cycle_ms,
            further_greens: further.collect(),
            greens: greens.iter().map(|greens| greens[0]).collect(),
        };
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
            // An incoming road that the traffic light does not control always has green. This is
            // approach 0 of the program.
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
