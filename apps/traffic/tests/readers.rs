//! Checks that a reader uses each part of a file that can change the result, or counts it as
//! unused.

#[path = "common/program.rs"]
mod program;

use creel::Pool;
use creel_traffic::demand::read::{Demand, demand};
use creel_traffic::network::read::{Assumed, network};
use creel_traffic::network::{Control, Network, RawNetwork, Turn};
use program::{place, run};

fn pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

fn roads(name: &str, text: &str) -> RawNetwork {
    let path = place(name);
    std::fs::write(&path, text).unwrap();
    network(&path, &Assumed::default(), &pool()).unwrap()
}

/// Returns a SUMO network of three roads in a row: from a to b, from b to c, and from c to d.
/// `more` is XML that is added to the network, for example further edges.
fn row(more: &str) -> String {
    let edge = |id: &str, from: &str, to: &str| {
        format!(
            "<edge id=\"{id}\" from=\"{from}\" to=\"{to}\"><lane id=\"{id}_0\" index=\"0\" speed=\"10\" length=\"100\"/></edge>"
        )
    };
    let junctions =
        ["a", "b", "c", "d"].map(|id| format!("<junction id=\"{id}\" x=\"0\" y=\"0\"/>"));
    format!(
        "<net>{}{}{}{}{more}</net>",
        edge("ab", "a", "b"),
        edge("bc", "b", "c"),
        edge("cd", "c", "d"),
        junctions.concat()
    )
}

fn trips(name: &str, text: &str) -> Result<Demand, String> {
    let network = Network::new(roads(&format!("{name}.net.xml"), &row(""))).unwrap();
    let path = place(&format!("{name}.rou.xml"));
    std::fs::write(&path, format!("<routes>{text}</routes>")).unwrap();
    let read = demand(&pool(), &network, &path, usize::MAX, 1);
    read.map_err(|error| error.to_string())
}

/// Returns the departure times of all cars in seconds.
fn departs(name: &str, text: &str) -> Vec<f64> {
    let network = Network::new(roads(&format!("{name}.net.xml"), &row(""))).unwrap();
    let plans = trips(name, text).unwrap().plans;
    let cars = 0..plans.len() as u32;
    cars.map(|car| f64::from(plans.trips(&network, car)[0].0) / 1000.0)
        .collect()
}

#[test]
fn lanes_that_cars_may_not_use_are_ignored() {
    let lane = |index: u32, rest: &str| {
        format!("<lane id=\"e_{index}\" index=\"{index}\" length=\"100\" {rest}/>")
    };
    let edge = |id: &str, lanes: &[String]| {
        format!(
            "<edge id=\"{id}\" from=\"a\" to=\"b\">{}</edge>",
            lanes.concat()
        )
    };
    let edges = [
        edge(
            "mixed",
            &[
                lane(0, "speed=\"2\" allow=\"pedestrian\""),
                lane(1, "speed=\"5\" allow=\"bicycle\""),
                lane(2, "speed=\"20\" disallow=\"pedestrian bicycle\""),
            ],
        ),
        edge("rail", &[lane(0, "speed=\"30\" allow=\"rail tram\"")]),
        edge(
            "bus",
            &[
                lane(0, "speed=\"10\" allow=\"bus\""),
                lane(1, "speed=\"10\" disallow=\"all\""),
            ],
        ),
        edge(
            "all",
            &[
                lane(0, "speed=\"10\""),
                lane(1, "speed=\"10\" allow=\"all\""),
            ],
        ),
    ];
    let text = format!(
        "<net>{}<junction id=\"a\" x=\"0\" y=\"0\"/><junction id=\"b\" x=\"1\" y=\"0\"/></net>",
        edges.concat()
    );
    let raw = roads("lanes.net.xml", &text);
    let found: Vec<_> = raw
        .links
        .iter()
        .map(|link| (link.lanes, link.speed_mm_s))
        .collect();
    assert_eq!(found, [(1, 20_000), (2, 10_000)]);
    assert!(raw.unused.is_empty(), "{}", raw.unused.text());
}

#[test]
fn the_right_of_way_matrix_and_roundabouts_are_read() {
    // A second road xb leads to junction b. Its cars yield to those of ab, because both continue on
    // bc. We expect this one movement that yields, and the roundabout of bc and cd.
    let more = "<edge id=\"xb\" from=\"d\" to=\"b\"><lane id=\"xb_0\" index=\"0\" speed=\"10\" length=\"50\"/></edge>
        <roundabout nodes=\"c d\" edges=\"bc cd\"/>
        <junction id=\"j\" type=\"priority\" x=\"0\" y=\"0\"/>
        <connection from=\"ab\" to=\"bc\" fromLane=\"0\" toLane=\"0\" via=\":b_0_0\" dir=\"s\"/>
        <connection from=\"xb\" to=\"bc\" fromLane=\"0\" toLane=\"0\" via=\":b_1_0\" dir=\"l\"/>";
    let text = row(more).replace(
        "<junction id=\"b\" x=\"0\" y=\"0\"/>",
        "<junction id=\"b\" type=\"priority\" x=\"0\" y=\"0\"><request index=\"0\" response=\"00\"/><request index=\"1\" response=\"01\"/></junction>",
    );
    let raw = roads("matrix.net.xml", &text);
    assert_eq!(raw.rings, [[1, 2]]);
    let [one] = &raw.yields[..] else {
        panic!("{:?}", raw.yields)
    };
    assert_eq!(
        (one.from, one.to, one.turn, &one.foes[..]),
        (3, 1, Turn::Left, &[(0, 1)][..])
    );
    assert_eq!(raw.junctions[1].control, Control::Priority);
    let network = Network::new(raw).unwrap();
    assert!((0..4).any(|link| network.ring(link).is_some()));
}

#[test]
fn a_traffic_light_has_all_green_phases_of_its_last_program() {
    let network = |lights: &str| {
        let connections = "<connection from=\"ab\" to=\"bc\" fromLane=\"0\" toLane=\"0\" tl=\"t\" linkIndex=\"0\"/><connection from=\"bc\" to=\"cd\" fromLane=\"0\" toLane=\"0\"/>";
        roads("greens.net.xml", &row(&format!("{lights}{connections}")))
    };
    let phase = |(seconds, state): (u32, &str)| {
        format!("<phase duration=\"{seconds}\" minDur=\"4\" state=\"{state}\"/>")
    };
    let program = |kind: &str, phases: &[(u32, &str)]| {
        let phases: String = phases.iter().copied().map(phase).collect();
        format!("<tlLogic id=\"t\" type=\"{kind}\" offset=\"0\">{phases}</tlLogic>")
    };
    let earlier = program("static", &[(30, "r"), (30, "G")]);
    let last = program(
        "static",
        &[(20, "G"), (3, "y"), (17, "r"), (10, "g"), (10, "r")],
    );
    let raw = network(&format!("{earlier}{last}"));
    assert_eq!(raw.unused.text(), "tlLogic (an earlier program) (1)");
    let light = &raw.programs[0];
    assert_eq!(light.cycle_ms, 60_000);
    // The yellow phase after green counts as green.
    assert_eq!(light.greens[1], (0, 23_000));
    assert_eq!(light.further_greens, [(1, (40_000, 50_000))]);
    let wait = |at_ms| light.green(1, 0, at_ms) - at_ms;
    assert_eq!([0, 22_999, 23_000, 39_000].map(wait), [0, 0, 17_000, 1000]);
    assert_eq!([45_000, 50_000, 59_999].map(wait), [0, 10_000, 1]);
    // The phases of an actuated light have their shortest lengths.
    let raw = network(&program("actuated", &[(30, "G"), (30, "r")]));
    assert_eq!(raw.programs[0].cycle_ms, 8000);
    assert_eq!(raw.programs[0].greens[1], (0, 4000));
}

#[test]
fn unusual_traffic_light_programs_are_read_or_counted_as_unused() {
    let light = |phases: &str, index: i32| {
        let more = format!(
            "<tlLogic id=\"t\" offset=\"0\">{phases}</tlLogic><connection from=\"ab\" to=\"bc\" fromLane=\"0\" toLane=\"0\" tl=\"t\" linkIndex=\"{index}\"/><connection from=\"bc\" to=\"cd\" fromLane=\"0\" toLane=\"0\"/>"
        );
        roads("light.net.xml", &row(&more))
    };
    let long = light(
        "<phase duration=\"100000\" state=\"G\"/><phase duration=\"10\" state=\"r\"/>",
        0,
    );
    assert_eq!(long.programs[0].greens[1], (0, 100_000_000));
    let longest = light("<phase duration=\"1e9\" state=\"G\"/>", 0);
    assert_eq!(longest.unused.text(), "phase duration (beyond 11 days) (1)");
    let free = light("<phase duration=\"50\" state=\"r\"/>", -1);
    assert_eq!(free.junctions[1].control, Control::Free);
    let red = light(
        "<phase duration=\"50\" state=\"r\"/><phase duration=\"5\" state=\"y\"/>",
        0,
    );
    assert_eq!(red.unused.text(), "tlLogic (an edge without green) (1)");
    assert_eq!(red.programs[0].greens[1], (50_000, 55_000));
    let off = light("<phase duration=\"50\" state=\"O\"/>", 0);
    assert_eq!(off.junctions[1].control, Control::Free);
    for raw in [long, longest, free, red, off] {
        Network::new(raw).unwrap();
    }
}

#[test]
fn flows_have_the_rate_that_the_file_says() {
    let flow = |name: &str, rest: &str| {
        departs(
            name,
            &format!("<flow id=\"f\" from=\"ab\" to=\"cd\" {rest}/>"),
        )
    };
    assert_eq!(
        flow("number", "begin=\"10\" end=\"20\" number=\"5\""),
        [10.0, 12.0, 14.0, 16.0, 18.0]
    );
    assert_eq!(
        flow("per-hour", "begin=\"0\" end=\"3600\" perHour=\"360\"").len(),
        360
    );
    assert_eq!(
        flow(
            "vehs-per-hour",
            "begin=\"0\" end=\"3600\" vehsPerHour=\"360\""
        )
        .len(),
        360
    );
    assert_eq!(
        flow("period", "begin=\"0\" end=\"10\" period=\"2.5\""),
        [0.0, 2.5, 5.0, 7.5]
    );
    assert_eq!(
        flow("both", "begin=\"5\" period=\"2\" number=\"3\""),
        [5.0, 7.0, 9.0]
    );
    let chance = flow("chance", "begin=\"0\" end=\"10000\" probability=\"0.1\"");
    assert!((900..1100).contains(&chance.len()), "{}", chance.len());
    assert!(chance.iter().all(|at| at.fract() == 0.0));
    let poisson = flow("poisson", "begin=\"0\" end=\"10000\" period=\"exp(0.2)\"");
    assert!((1850..2150).contains(&poisson.len()), "{}", poisson.len());
    assert!(poisson.windows(2).any(|pair| pair[1] - pair[0] > 15.0));
    let inside = departs(
        "interval",
        "<interval begin=\"600\" end=\"1200\"><flow id=\"f\" number=\"3\" from=\"ab\" to=\"cd\"/></interval>",
    );
    assert_eq!(inside, [600.0, 800.0, 1000.0]);
    let many =
        "<flow id=\"f\" begin=\"0\" end=\"3600\" number=\"1000000000\" from=\"ab\" to=\"cd\"/>";
    assert!(
        trips("many", many)
            .unwrap_err()
            .contains("1000000000 vehicles")
    );
    let none = "<flow id=\"f\" begin=\"0\" end=\"3600\" from=\"ab\" to=\"cd\"/>";
    assert!(
        trips("none", none)
            .unwrap_err()
            .contains("needs number, vehsPerHour")
    );
}

#[test]
fn trips_pass_their_vias_and_may_begin_and_end_at_junctions() {
    let network = Network::new(roads("via.net.xml", &row(""))).unwrap();
    let all = "<trip id=\"v\" depart=\"0\" from=\"ab\" via=\"bc\" to=\"cd\"/>
        <trip id=\"j\" depart=\"1\" fromJunction=\"b\" toJunction=\"d\"/>
        <trip id=\"m\" depart=\"2\" from=\"bc\" toJunction=\"d\"/>
        <trip id=\"x\" depart=\"3\" from=\"ab\" via=\"nowhere\" to=\"cd\"/>
        <trip id=\"y\" from=\"ab\" to=\"cd\"/>
        <vehicle id=\"z\" depart=\"4\"/>";
    let demand = trips("via", all).unwrap();
    let names = |car: u32| -> Vec<String> {
        let path = demand.plans.trips(&network, car).remove(0).1;
        path.into_iter()
            .map(|link| network.link_name(link))
            .collect()
    };
    assert_eq!(names(0), ["ab", "bc", "cd"]);
    assert_eq!(names(1), ["bc", "cd"]);
    assert_eq!(names(2), ["bc", "cd"]);
    assert_eq!((demand.plans.len(), demand.left_out.0), (3, 3));
    let twice = "<trip id=\"v\" depart=\"0\" from=\"ab\" to=\"cd\"/>".repeat(2);
    assert!(
        trips("twice", &twice)
            .unwrap_err()
            .contains("have the id v")
    );
}

#[test]
fn unused_parts_are_counted_printed_and_fail_with_strict() {
    let net = place("strict.net.xml");
    std::fs::write(&net, row("<prohibition/>")).unwrap();
    let routes = place("strict.rou.xml");
    let text = "<routes><vType id=\"slow\" maxSpeed=\"2\" sigma=\"0.5\"/><vType id=\"quick\" maxSpeed=\"50\"/>
        <vehicle id=\"v\" type=\"slow\" depart=\"0\"><route edges=\"ab bc\"/><stop edge=\"bc\" duration=\"9\"/></vehicle>
        <person id=\"p\" depart=\"0\"><walk edges=\"ab\"/></person></routes>";
    std::fs::write(&routes, text).unwrap();
    let (net, routes) = (net.to_str().unwrap(), routes.to_str().unwrap());
    let arguments = [
        "run",
        "--network",
        net,
        "--demand",
        routes,
        "--seconds",
        "60",
        "--format",
        "json",
    ];
    let output = run(&arguments);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!({
        "network": {"prohibition": 1},
        "demand": {"person": 1, "stop": 1, "vType sigma": 1},
        "left_out": 0
    });
    assert_eq!(document["unused"], expected);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(
        notes.contains("not used: person (1), stop (1), vType sigma (1)"),
        "{notes}"
    );
    let output = run(&[&arguments[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(65));
}

#[test]
fn closed_roads_are_left_out_and_capacities_can_be_scaled() {
    let link = |id: &str, rest: &str| {
        format!(
            "<link id=\"{id}\" from=\"a\" to=\"b\" length=\"1000\" freespeed=\"10\" permlanes=\"1\" {rest}/>"
        )
    };
    let links = [
        link("slow", "capacity=\"10\""),
        link("closed", "capacity=\"0\""),
    ];
    let text = format!(
        "<network><nodes><node id=\"a\" x=\"0\" y=\"0\"/><node id=\"b\" x=\"9\" y=\"0\"/></nodes><links capperiod=\"01:00:00\">{}</links></network>",
        links.concat()
    );
    let raw = roads("closed.xml", &text);
    assert_eq!(raw.links.len(), 1);
    assert_eq!(raw.links[0].headway_ms, 360_000);
    assert_eq!(
        raw.unused.text(),
        "link capacity=0 (closed, so left out) (1)"
    );
    let network = Network::new(raw).unwrap();
    let physics = creel_traffic::network::Physics {
        flow_ppm: 2_000_000,
        storage_ppm: 100_000,
        ..Default::default()
    };
    let flow = network.flow(0, &physics);
    assert_eq!((flow.headway_ms, flow.storage), (180_000, 13));
}

#[test]
fn the_time_inside_a_junction_is_part_of_the_road() {
    let more = "<edge id=\":b_0\" function=\"internal\"><lane id=\":b_0_0\" index=\"0\" speed=\"5\" length=\"10\"/></edge>
        <edge id=\":b_1\" function=\"internal\"><lane id=\":b_1_0\" index=\"0\" speed=\"10\" length=\"10\"/></edge>
        <connection from=\"ab\" to=\"bc\" fromLane=\"0\" toLane=\"0\" via=\":b_0_0\" dir=\"s\"/>
        <connection from=\":b_0\" to=\"bc\" fromLane=\"0\" toLane=\"0\" via=\":b_1_0\" dir=\"s\"/>";
    let raw = roads("inner.net.xml", &row(more));
    assert_eq!(raw.inner_ms, [3000, 0, 0]);
    let network = Network::new(raw).unwrap();
    let flow = network.flow(network.links_by_name()["ab"], &Default::default());
    assert_eq!(flow.free_flow_ms, 13_000);
}

#[test]
fn parts_that_change_the_meaning_of_a_network_are_counted() {
    let edge = "<edge id=\"e\" from=\"a\" to=\"b\" bidi=\"f\">
        <lane id=\"e_0\" index=\"0\" speed=\"10\" length=\"100\"/>
        <lane id=\"e_1\" index=\"1\" speed=\"20\" length=\"100\"/></edge>";
    let more = format!(
        "<type id=\"t\"><restriction vClass=\"passenger\" speed=\"5\"/><restriction vClass=\"bus\" speed=\"5\"/></type>
        {edge}<junction id=\"x\" type=\"rail_crossing\" x=\"0\" y=\"0\"/>
        <tlLogic id=\"l\" magic=\"1\"/><connection from=\"ab\" to=\"bc\" speed=\"3\"/>"
    );
    assert_eq!(
        roads("counted.net.xml", &row(&more)).unused.text(),
        "connection (a turn without one) (2), connection speed (1), edge bidi (1), \
         junction type=rail_crossing (1), lane speed (not that of the fastest lane of its edge) (1), \
         restriction vClass=passenger (1), tlLogic magic (1)"
    );
    let links = "<attribute name=\"turnRestrictions\">x</attribute>";
    let network = format!("<network><nodes/><links>{links}</links></network>");
    assert_eq!(
        roads("counted.xml", &network).unused.text(),
        "attribute name=turnRestrictions (1)"
    );
    let graph = "p sp 2 1\na 1 2 50 7\n";
    assert_eq!(
        roads("counted.gr", graph).unused.text(),
        "road (further numbers) (1)"
    );
    let tntp = "<NUMBER OF ZONES> 2\n<NUMBER OF NODES> 2\n<NUMBER OF LINKS> 1\n<TOLL FACTOR> 2\n<END OF METADATA>\n1 2 900 1 1 0 4 30 0 1 ;\n";
    assert_eq!(
        roads("counted.tntp", tntp).unused.text(),
        "TOLL FACTOR (1), link length (1), link speed (1)"
    );
}

#[test]
fn parts_that_change_the_meaning_of_a_demand_are_counted() {
    let routes = "<vType id=\"t\" tau=\"2\" speedDev=\"0.1\" speedFactor=\"1.2\"/>
        <vehicle id=\"v\" type=\"unknown\" depart=\"0\" reroute=\"true\"><route edges=\"ab bc\" repeat=\"3\"/></vehicle>
        <trip id=\"w\" depart=\"0\" fromTaz=\"1\" toTaz=\"2\"/>";
    let demand = trips("meaning", routes).unwrap();
    assert_eq!(
        demand.unused.text(),
        "route repeat (1), trip fromTaz (1), trip toTaz (1), type=unknown (not defined in the file) (1), \
         vType speedDev (1), vType speedFactor (more than 1) (1), vType tau (1), vehicle reroute (1)"
    );
    assert_eq!(demand.left_out.0, 1);
    let network = Network::new(roads("meaning.net.xml", &row(""))).unwrap();
    let path = place("meaning.tntp");
    let table = "<NUMBER OF ZONES> 2\n<TOTAL OD FLOW> 90.0\n<OD FACTOR> 2\n<END OF METADATA>\nOrigin 1\n 2 : 30.0;\n";
    std::fs::write(&path, table).unwrap();
    let read = demand_of(&network, &path);
    assert_eq!(
        read.unused.text(),
        "OD FACTOR (1), TOTAL OD FLOW (not the sum of the trips) (1)"
    );
}

fn demand_of(network: &Network, path: &std::path::Path) -> Demand {
    demand(&pool(), network, path, usize::MAX, 1).unwrap()
}
