//! Checks demand that consists of several files, such as MATSim's plans and vehicles.

#[path = "common/program.rs"]
mod program;

use creel::Pool;
use creel_traffic::demand::CarSpeed;
use creel_traffic::demand::read::{Demand, Reader};
use creel_traffic::network::Network;
use creel_traffic::network::read::{Assumed, ReadError, network};
use program::{place, run};
use std::path::PathBuf;

fn pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = place(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns MATSim's network of two links, from a to b and from b to c. The name of the second one
/// has a letter that XML must escape.
fn roads(name: &str) -> PathBuf {
    let link = |id: &str, from: &str, to: &str| {
        format!(
            "<link id='{id}' from='{from}' to='{to}' length='1000' freespeed='20' capacity='1800'/>"
        )
    };
    let nodes = ["a", "b", "c"].map(|id| format!("<node id='{id}' x='0' y='0'/>"));
    let links = [link("ab", "a", "b"), link("b&amp;c", "b", "c")];
    let text = format!(
        "<network><nodes>{}</nodes><links>{}</links></network>",
        nodes.concat(),
        links.concat()
    );
    file(&format!("{name}.network.xml"), &text)
}

fn read(name: &str, files: &[&PathBuf]) -> Result<(Network, Demand), ReadError> {
    let network = Network::new(network(&roads(name), &Assumed::default(), &pool())?)?;
    let mut reader = Reader::new(&network, 1);
    for path in files {
        reader.read(path)?;
    }
    let demand = reader.finish(&pool(), usize::MAX, &|_| {})?;
    Ok((network, demand))
}

const VEHICLES: &str = r#"<vehicleDefinitions xmlns="http://www.matsim.org/files/dtd">
    <vehicleType id="car"><capacity seats="4"/><length meter="7.5"/><width meter="1.0"/>
        <maximumVelocity meterPerSecond="15.0"/><passengerCarEquivalents pce="1.0"/>
        <networkMode networkMode="car"/><flowEfficiencyFactor factor="1.0"/></vehicleType>
    <vehicleType id="truck"><attributes><attribute name="x" class="y">1</attribute></attributes>
        <maximumVelocity meterPerSecond="5.5"/><passengerCarEquivalents pce="2.5"/>
        <wings span="3"/></vehicleType>
    <vehicleType id="rocket"><maximumVelocity meterPerSecond="INF"/></vehicleType>
    <vehicle id="truck_1" type="truck"/><vehicle id="own" type="truck"/>
    <vehicle id="rocket_1" type="rocket"/>
</vehicleDefinitions>"#;

/// Returns a person with attributes, who drives with this vehicle.
fn person(id: &str, attributes: &str, vehicle: &str) -> String {
    format!(
        r#"<person id="{id}"><attributes>{attributes}</attributes><plan selected="yes">
        <activity type="h" link="ab" end_time="00:01:00"/><leg mode="car" dep_time="00:01:00">
        <route type="links" start_link="ab" end_link="b&amp;c" {vehicle}>ab b&amp;c</route></leg>
        <activity type="w" link="b&amp;c"/></plan></person>"#
    )
}

fn attribute(name: &str, text: &str) -> String {
    format!(
        r#"<attribute name="{name}" class="org.matsim.vehicles.PersonVehicles">{text}</attribute>"#
    )
}

#[test]
fn persons_drive_the_vehicles_of_a_matsim_scenario() {
    let vehicles = file("vehicles.xml", VEHICLES);
    let persons = [
        person("in route", "", r#"vehicleRefId="truck_1""#),
        person(
            "in attributes",
            &attribute("vehicles", r#"{"bike":"rocket_1","car":"truck_1"}"#),
            r#"vehicleRefId="null""#,
        ),
        person(
            "escaped",
            &attribute("vehicles", "{&quot;car&quot;:&quot;truck_1&quot;}"),
            "",
        ),
        person(
            "typed",
            &attribute("vehicleTypes", r#"{"car":"truck"}"#),
            r#"vehicleRefId="typed""#,
        ),
        person("own", "", ""),
        person("fast", "", r#"vehicleRefId="rocket_1""#),
        person("by mode", "", ""),
        person("unknown", "", r#"vehicleRefId="ghost""#),
    ];
    let plans = format!("<population>{}</population>", persons.concat());
    let plans = file("vehicles.plans.xml", &plans);
    let (_, demand) = read("vehicles", &[&vehicles, &plans]).unwrap();
    let speeds = (0..8).map(|car| demand.plans.speed(car).max_mm_s);
    let speeds: Vec<u32> = speeds.collect();
    let road = CarSpeed::ROAD.max_mm_s;
    let expected = [5500, 5500, 5500, 5500, 5500, road, 15_000, 15_000];
    assert_eq!(speeds, expected);
    let unused: Vec<(&str, u64)> = demand.unused.iter().collect();
    let expected = [
        ("passengerCarEquivalents pce", 1),
        ("vehicle (not defined in the files)", 1),
        ("wings", 1),
    ];
    assert_eq!(unused, expected);
    // Without the file, the vehicles that it defines are counted.
    let (_, demand) = read("vehicles", &[&plans]).unwrap();
    let unused: Vec<(&str, u64)> = demand.unused.iter().collect();
    let expected = [
        ("vehicle (not defined in the files)", 5),
        ("vehicleType truck (not defined in the files)", 1),
    ];
    assert_eq!(unused, expected);
}

#[test]
fn a_route_is_read_whole_if_it_contains_references_and_comments() {
    let person = |id: &str, route: &str| {
        format!(
            "<person id='{id}'><plan><act end_time='10'/><leg mode='car'><route>{route}</route></leg></plan></person>"
        )
    };
    let plans = [
        person("1", "ab b&amp;c"),
        person("2", "ab <!-- then --> b&#38;c"),
        person("3", "<![CDATA[ab b&c]]>"),
    ];
    let plans = file(
        "text.plans.xml",
        &format!("<plans>{}</plans>", plans.concat()),
    );
    let (network, demand) = read("text", &[&plans]).unwrap();
    assert_eq!(demand.left_out, (0, None));
    let links = network.links_by_name();
    for car in 0..3 {
        let trips = demand.plans.trips(&network, car);
        assert_eq!(trips, [(10_000, vec![links["ab"], links["b&c"]])], "{car}");
    }
    let plans = file(
        "entity.plans.xml",
        "<plans><person id='1'>&nothing;</person></plans>",
    );
    let error = read("text", &[&plans]).unwrap_err().to_string();
    assert!(
        error.contains("the entity &nothing; is not defined"),
        "{error}"
    );
}

#[test]
fn types_of_sumo_can_be_in_a_file_of_their_own() {
    let edge =
        "<edge id='ab' from='a' to='b'><lane id='ab_0' index='0' speed='20' length='100'/></edge>";
    let net =
        format!("<net>{edge}<junction id='a' x='0' y='0'/><junction id='b' x='1' y='0'/></net>");
    let net = file("types.net.xml", &net);
    let types = file(
        "types.add.xml",
        "<additional><vType id='slow' maxSpeed='4'/><route id='r' edges='ab'/></additional>",
    );
    let trips = "<routes><vehicle id='1' type='slow' depart='0' route='r'/></routes>";
    let trips = file("types.rou.xml", trips);
    let [net, types, trips] = [&net, &types, &trips].map(|path| path.to_str().unwrap());
    let run = |demand: &[&str]| {
        let fixed = [
            "run",
            "--network",
            net,
            "--seconds",
            "60",
            "--strict",
            "--format",
            "json",
        ];
        run(&[&fixed, demand].concat())
    };
    let output = run(&["--demand", types, "--demand", trips]);
    assert!(output.status.success(), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The road is 100 m long, and the car drives at 4 m/s.
    assert_eq!(document["arrived"], 1, "{document}");
    assert_eq!(document["vehicle_seconds"], 25.0, "{document}");
    // The program says what is missing, and does not run with less than the files describe.
    for (demand, code, message) in [
        (
            &["--demand", trips][..],
            65,
            "no <route> before this vehicle",
        ),
        (
            &["--demand", types],
            65,
            "add the file with their plans or trips",
        ),
        (
            &["--demand", trips, "--demand", types],
            65,
            "no <route> before",
        ),
        (&["--demand", trips, "--demand", trips], 65, "the id 1"),
        (
            &["--demand", types, "--demand", "laps"],
            2,
            "cannot be combined",
        ),
    ] {
        let output = run(demand);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{demand:?}: {text}");
        assert!(text.contains(message), "{demand:?}: {text}");
    }
}

#[test]
fn values_without_a_meaning_are_rejected_left_out_or_counted() {
    let edge = |id: &str, speed: &str| {
        format!(
            "<edge id='{id}' from='a' to='b'><lane id='{id}_0' index='0' speed='{speed}' length='100'/></edge>"
        )
    };
    let net = |speed: &str| {
        let edge = edge("ab", speed);
        format!("<net>{edge}<junction id='a' x='0' y='0'/><junction id='b' x='1' y='0'/></net>")
    };
    let demand = |text: &str| {
        let raw = network(
            &file("odd.net.xml", &net("20")),
            &Assumed::default(),
            &pool(),
        );
        let network = Network::new(raw.unwrap()).unwrap();
        let mut reader = Reader::new(&network, 1);
        let text = format!("<routes>{text}</routes>");
        reader.read(&file("odd.rou.xml", &text))?;
        reader.finish(&pool(), usize::MAX, &|_| {})
    };
    let error = network(
        &file("nan.net.xml", &net("NaN")),
        &Assumed::default(),
        &pool(),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("expected a number for speed"), "{error}");
    let named = ["v&#1;", "v\0"].map(|id| demand(&format!("<vehicle id='{id}' depart='0'/>")));
    for error in named.map(|read| read.unwrap_err().to_string()) {
        assert!(error.contains("id contains a control character"), "{error}");
    }
    let read = demand("<vehicle id='v' depart='0'><route edges=' '/></vehicle>").unwrap();
    assert_eq!(read.left_out, (1, Some("v: its route has no edges".into())));
    let error = demand("<flow id='f' begin='9' end='8' number='5' from='ab' to='ab'/>");
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("the flow f ends before it begins"),
        "{error}"
    );
    let read = demand("<flow id='f' begin='0' end='8' number='2.7' from='ab' to='ab'/>").unwrap();
    let unused: Vec<(&str, u64)> = read.unused.iter().collect();
    assert_eq!(unused, [("flow number (its fraction)", 1)]);
    assert_eq!(read.plans.len(), 2);
}
