//! Checks the reader of OpenStreetMap extracts with files that the tests write.

#[path = "common/program.rs"]
mod program;

use creel::Pool;
use creel_traffic::network::read::{Assumed, network};
use creel_traffic::network::{Control, Network, RawNetwork, Turn};
use program::place;

type Tags<'a> = &'a [(&'a str, &'a str)];

/// Writes an extract in the PBF format, with the coordinates of nodes in metres from the origin.
#[derive(Default)]
struct Extract {
    strings: Vec<String>,
    group: Vec<u8>,
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

impl Extract {
    fn string(&mut self, text: &str) -> u64 {
        let known = self.strings.iter().position(|string| string == text);
        known.unwrap_or_else(|| {
            self.strings.push(text.into());
            self.strings.len() - 1
        }) as u64
            + 1
    }

    fn tags(&mut self, tags: Tags<'_>) -> Vec<u8> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in tags {
            keys.extend(varint(self.string(key)));
            values.extend(varint(self.string(value)));
        }
        [message(2, &keys), message(3, &values)].concat()
    }

    fn node(&mut self, id: i64, x: f64, y: f64, tags: Tags<'_>) {
        let degree = |metres: f64| zigzag((metres / 111_195.0 * 1e7) as i64);
        let tags = self.tags(tags);
        let node = [
            number(1, zigzag(id)),
            tags,
            number(8, degree(y)),
            number(9, degree(x)),
        ];
        self.group.extend(message(1, &node.concat()));
    }

    fn way(&mut self, id: u64, nodes: &[i64], tags: Tags<'_>) {
        let mut before = 0;
        let refs = nodes.iter().flat_map(|&node| {
            let step = zigzag(node - before);
            before = node;
            varint(step)
        });
        let refs: Vec<u8> = refs.collect();
        let way = [number(1, id), self.tags(tags), message(8, &refs)].concat();
        self.group.extend(message(3, &way));
    }

    fn relation(&mut self, id: u64, tags: Tags<'_>) {
        let relation = [number(1, id), self.tags(tags)].concat();
        self.group.extend(message(4, &relation));
    }

    fn read(self, name: &str) -> RawNetwork {
        let blob = |kind: &str, content: &[u8]| {
            let blob = message(1, content);
            let size = number(3, blob.len() as u64);
            let header = [message(1, kind.as_bytes()), size].concat();
            [(header.len() as u32).to_be_bytes().to_vec(), header, blob].concat()
        };
        let strings = self.strings.iter().map(|text| message(1, text.as_bytes()));
        let strings = [message(1, b""), strings.collect::<Vec<_>>().concat()].concat();
        let block = [message(1, &strings), message(2, &self.group)].concat();
        let header = message(4, b"OsmSchema-V0.6");
        let path = place(name);
        let bytes = [blob("OSMHeader", &header), blob("OSMData", &block)].concat();
        std::fs::write(&path, bytes).unwrap();
        let pool = Pool::builder().workers(1).build().unwrap();
        network(&path, &Assumed::default(), &pool).unwrap()
    }
}

#[test]
fn roads_that_enter_a_roundabout_yield() {
    let mut extract = Extract::default();
    for (id, x, y) in [
        (1, 20.0, 0.0),
        (2, 0.0, 20.0),
        (3, -20.0, 0.0),
        (4, 0.0, -20.0),
    ] {
        extract.node(id, x, y, &[]);
        extract.node(id + 10, x * 20.0, y * 20.0, &[]);
    }
    extract.way(
        100,
        &[1, 2, 3, 4, 1],
        &[("highway", "tertiary"), ("junction", "roundabout")],
    );
    for arm in 1..5 {
        extract.way(
            arm,
            &[arm as i64, arm as i64 + 10],
            &[("highway", "tertiary")],
        );
    }
    let raw = extract.read("round.osm.pbf");
    assert_eq!(raw.rings.iter().map(Vec::len).collect::<Vec<_>>(), [4]);
    assert!(raw.unused.is_empty(), "{}", raw.unused.text());
    let network = Network::new(raw).unwrap();
    let mut entries = 0;
    for junction in 0..network.junctions().len() as u32 {
        for one in network.yields(junction) {
            assert!(network.ring(one.from).is_none());
            assert!(one.foes.iter().all(|foe| network.ring(foe.0).is_some()));
            if network.ring(one.to).is_some() {
                assert_eq!(one.turn, Turn::Roundabout);
                entries += 1;
            }
        }
    }
    assert_eq!(entries, 4);
}

#[test]
fn lights_and_signs_ahead_of_a_junction_belong_to_it() {
    let mut extract = Extract::default();
    // Three roads meet at node 1. There is a light 20 m ahead of it, and one in the middle of a
    // road.
    extract.node(1, 0.0, 0.0, &[]);
    extract.node(2, 400.0, 0.0, &[]);
    extract.node(3, -400.0, 0.0, &[]);
    extract.node(4, 0.0, -400.0, &[]);
    extract.node(
        5,
        20.0,
        0.0,
        &[("highway", "traffic_signals"), ("direction", "backward")],
    );
    extract.node(6, -200.0, 0.0, &[("highway", "traffic_signals")]);
    extract.way(1, &[1, 5, 2], &[("highway", "primary")]);
    extract.way(2, &[3, 6, 1], &[("highway", "primary")]);
    extract.way(3, &[4, 1], &[("highway", "residential")]);
    let raw = extract.read("lights.osm.pbf");
    let lit = raw
        .junctions
        .iter()
        .filter(|junction| junction.control != Control::Free);
    assert_eq!(lit.count(), 1);
    assert_eq!(
        raw.unused.text(),
        "node (a light or sign away from junctions) (1)"
    );
    // The residential road has a give-way sign.
    let mut extract = Extract::default();
    for (id, x, y) in [
        (1, 0.0, 0.0),
        (2, 400.0, 0.0),
        (3, -400.0, 0.0),
        (4, 0.0, -400.0),
    ] {
        extract.node(id, x, y, &[]);
    }
    extract.node(5, 0.0, -10.0, &[("highway", "give_way")]);
    extract.way(1, &[3, 1], &[("highway", "primary")]);
    extract.way(2, &[1, 2], &[("highway", "primary")]);
    extract.way(3, &[4, 5, 1], &[("highway", "residential")]);
    let network = Network::new(extract.read("give-way.osm.pbf")).unwrap();
    let yields: Vec<_> = (0..4)
        .flat_map(|junction| network.yields(junction))
        .collect();
    assert!(!yields.is_empty());
    assert!(
        yields
            .iter()
            .all(|one| network.link_name(one.from) == "3:0")
    );
}

#[test]
fn tags_for_access_lanes_and_turn_restrictions_are_read_or_counted() {
    let mut extract = Extract::default();
    for id in 1..10 {
        extract.node(id, id as f64 * 100.0, 0.0, &[]);
    }
    extract.node(20, 0.0, 0.0, &[("barrier", "bollard")]);
    let road = ("highway", "tertiary");
    extract.way(
        1,
        &[1, 2],
        &[road, ("access", "no"), ("motor_vehicle", "yes")],
    );
    extract.way(2, &[2, 3], &[road, ("motorcar", "no")]);
    extract.way(3, &[3, 4], &[road, ("lanes", "3"), ("lanes:backward", "1")]);
    extract.way(
        4,
        &[4, 5],
        &[road, ("maxspeed", "60"), ("maxspeed:backward", "30")],
    );
    extract.way(
        5,
        &[5, 6],
        &[road, ("oneway", "reversible"), ("maxspeed", "fast")],
    );
    extract.way(
        6,
        &[20, 1],
        &[road, ("access:conditional", "no @ (22:00-06:00)")],
    );
    extract.relation(
        7,
        &[("type", "restriction"), ("restriction", "no_left_turn")],
    );
    let raw = extract.read("access.osm.pbf");
    let network = Network::new(raw.clone()).unwrap();
    let links = network.links_by_name();
    let road = |name: &str| network.links()[links[name] as usize];
    assert!(!links.contains_key("2:0"));
    assert_eq!(
        (road("1:0").lanes, road("3:0").lanes, road("3:0r").lanes),
        (1, 2, 1)
    );
    assert_eq!(
        (road("4:0").speed_mm_s, road("4:0r").speed_mm_s),
        (16_666, 8_333)
    );
    assert_eq!(
        raw.unused.text(),
        "node barrier=bollard (1), relation type=restriction (1), way access:conditional (1), way maxspeed (not a number) (1), way oneway=reversible (1)"
    );
}

#[test]
fn tags_of_one_direction_and_of_cars_are_read_and_others_counted() {
    let mut extract = Extract::default();
    let signs: [Tags<'_>; 4] = [
        &[("railway", "level_crossing")],
        &[("highway", "crossing"), ("crossing", "traffic_signals")],
        &[("barrier", "toll_booth")],
        &[("traffic_calming", "bump")],
    ];
    for id in 1..20 {
        let sign = usize::try_from(id - 10).ok();
        let tags = sign.and_then(|sign| signs.get(sign)).copied();
        extract.node(id, id as f64 * 100.0, 0.0, tags.unwrap_or(&[]));
    }
    let road = ("highway", "tertiary");
    let ways: [Tags<'_>; 11] = [
        &[road, ("oneway:motor_vehicle", "yes")],
        &[road, ("vehicle:forward", "no")],
        &[road, ("oneway", "yes"), ("oneway:motorcar", "no")],
        &[road, ("access", "destination")],
        &[road, ("lanes", "2.5")],
        &[road, ("lanes:both_ways", "1")],
        &[road, ("maxspeed:variable", "yes")],
        &[("highway", "service")],
        &[("highway", "service"), ("access", "private")],
        &[("route", "ferry")],
        &[road],
    ];
    for (id, tags) in (1..).zip(ways) {
        let nodes: Vec<i64> = match id {
            11 => (10..=14).collect(),
            id => vec![id as i64, id as i64 + 1],
        };
        extract.way(id, &nodes, tags);
    }
    let restriction = [("type", "restriction"), ("restriction", "no_left_turn")];
    extract.relation(
        20,
        &[&restriction[..], &[("except", "psv;motorcar")]].concat(),
    );
    let raw = extract.read("directions.osm.pbf");
    let network = Network::new(raw.clone()).unwrap();
    let links = network.links_by_name();
    let found = ["1:0", "1:0r", "2:0", "2:0r", "3:0", "3:0r"].map(|name| links.contains_key(name));
    assert_eq!(found, [true, false, false, true, true, true]);
    assert_eq!(
        raw.unused.text(),
        "node barrier=toll_booth (1), node crossing=traffic_signals (1), node railway=level_crossing (1), \
         node traffic_calming (1), way access=destination (1), way highway=service (left out) (1), \
         way lanes (not a number) (1), way lanes:both_ways (1), way maxspeed:variable (1), \
         way route=ferry (left out) (1)"
    );
}
