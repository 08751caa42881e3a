//! Reads and writes all file formats.

mod common;

use creel::Pool;
use creel_traffic::assign::equilibrium;
use creel_traffic::demand::Plans;
use creel_traffic::demand::read::demand;
use creel_traffic::network::read::{Assumed, ReadError, network, tntp};
use creel_traffic::network::{Control, Network, Physics};
use creel_traffic::output::{Edges, Events, Fcd, Filter, Labels, Report, Table};
use creel_traffic::sim::Simulation;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// Writes a file for this test and returns its path.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("creel-traffic-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn read(path: &Path) -> Result<Network, ReadError> {
    Ok(Network::new(network(path, &Assumed::default(), &pool())?)?)
}

fn data(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .unwrap()
}

#[test]
fn sioux_falls_reaches_the_published_optimum() {
    let roads = tntp::Tntp::parse(&data("sioux-falls.roads.tntp")).unwrap();
    let trips = tntp::trips(&data("sioux-falls.trips.tntp")).unwrap();
    assert_eq!(trips.iter().map(|trip| trip.2).sum::<f64>(), 360_600.0);
    let found = equilibrium(&pool(), &roads, &trips, 1e-7, 10_000).unwrap();
    // The published value is in units of 100,000.
    assert!(
        (found.objective / 1e5 - 42.313_352_87).abs() < 5e-6,
        "{}",
        found.objective
    );
    assert!(found.gap <= 1e-7);
    let one = Pool::builder().workers(1).build().unwrap();
    let rerun = equilibrium(&one, &roads, &trips, 1e-7, 10_000).unwrap();
    assert_eq!(found.objective.to_bits(), rerun.objective.to_bits());
}

#[test]
fn pair_lists_and_dimacs_graphs_are_read() {
    let pairs = read(&file("pairs.gr", "c hello\np tw 3 2\n1 2\n2 3\n")).unwrap();
    assert_eq!((pairs.junctions().len(), pairs.links().len()), (3, 4));
    assert!(pairs.links().iter().all(|link| link.length_mm == 200_000));
    let path = file("arcs.gr", "p sp 2 1\na 1 2 1234\n");
    file(
        "arcs.co",
        "p aux sp co 2\nv 1 -73000000 40000000\nv 2 -73001000 40000000\n",
    );
    let arcs = read(&path).unwrap();
    assert_eq!(arcs.links()[0].length_mm, 123_400);
    assert!(arcs.geographic() && arcs.junctions()[0].x < -72.9);
}

#[test]
fn broken_files_are_reported_with_their_line() {
    for (text, expected) in [
        ("p tw 3 2\n1 2\n", "cut"),
        ("p tw 3 1\n1 2\n2 3\n", "line 3"),
        ("p tw 3 1\n1 4\n", "line 2"),
        ("p tw 3 1\n1 x\n", "'x'"),
        ("p tw 99999999999 1\n1 2\n", "more than"),
        ("1 2\np tw 3 1\n", "line 1"),
        ("p tw 3 1\n1 0\n", "line 2"),
        ("p tw 0 0\n", "at least one"),
        (
            "<NUMBER OF NODES> 2\n<NUMBER OF LINKS> 1\n<END OF METADATA>\n1 3 1 1 1 1 1 ;",
            "node 3",
        ),
        (
            "<NUMBER OF NODES> 2\n<NUMBER OF LINKS> 2\n<END OF METADATA>\n1 2 1 1 1 1 1 ;",
            "says 2",
        ),
        ("<network><nodes><node id='a' x='0' y='0'/>", "cut"),
        (
            "<network><nodes/><links><link id='1' from='a' to='b' length='1' freespeed='1' capacity='1' permlanes='1'/></links></network>",
            "node a",
        ),
        (
            "<net><edge id='e' from='a' to='b'><lane length='10' speed='5'/></edge></net>",
            "junction a",
        ),
        (
            "<network><nodes><node id='a' x='0' y='0'/></nodes><links><link id='1' from='a' to='a' length='1e300' freespeed='1' capacity='1' permlanes='1'/></links></network>",
            "1,000 km",
        ),
        (
            "<net><edge id='e' from='a' to='a'><lane length='-10' speed='5'/></edge><junction id='a' x='0' y='0'/></net>",
            "1,000 km",
        ),
        (
            "<network><nodes><node id='a' x='1e308' y='0'/></nodes><links><link id='1' from='a' to='a' length='10' freespeed='1' capacity='1' permlanes='1'/></links></network>",
            "junction a",
        ),
        ("hello", "unknown file format"),
    ] {
        let error = read(&file("broken", text)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"p tw 3 2\n1 2\n2 3\n").unwrap();
    let packed = packed.finish().unwrap();
    let path = file("cut.gz", "");
    std::fs::write(&path, &packed).unwrap();
    assert_eq!(read(&path).unwrap().links().len(), 4);
    std::fs::write(&path, &packed[..packed.len() - 6]).unwrap();
    assert!(matches!(read(&path), Err(ReadError::Malformed(_))));
}

const MATSIM: &str = "<?xml version='1.0'?>
<!DOCTYPE network SYSTEM 'http://www.matsim.org/files/dtd/network_v2.dtd'>
<network><nodes><node id='a' x='0' y='0'/><node id='b' x='1000' y='0'/><node id='c' x='1000' y='500'/></nodes>
<links capperiod='01:00:00'>
<link id='ab' from='a' to='b' length='1000' freespeed='20' capacity='1800' permlanes='2' modes='car'/>
<link id='bc' from='b' to='c' length='500' freespeed='10' capacity='900' permlanes='1' modes='car,bus'/>
<link id='rail' from='a' to='c' length='500' freespeed='10' capacity='900' permlanes='1' modes='train'/>
</links></network>";

#[test]
fn matsim_networks_and_plans_are_read() {
    let network = Arc::new(read(&file("network.xml", MATSIM)).unwrap());
    assert_eq!(network.links().len(), 2);
    let links = network.links_by_name();
    let flow = network.flow(links["ab"], &Physics::default());
    assert_eq!(
        (flow.free_flow_ms, flow.storage, flow.headway_ms),
        (50_000, 266, 2000)
    );
    let plans = "<plans><person id='1'>
        <plan selected='no'><act end_time='00:00:01'/><leg mode='car'><route>bc</route></leg></plan>
        <plan selected='yes'><act type='h' end_time='00:01:00'/><leg mode='car'><route>ab bc</route></leg><act type='w'/></plan>
        </person><person id='2'><plan><act end_time='10'/><leg mode='car'><route>nowhere</route></leg></plan></person></plans>";
    let demand = demand(&pool(), &network, &file("plans.xml", plans), 10, 1).unwrap();
    assert_eq!((demand.plans.len(), demand.left_out.0), (1, 1));
    assert_eq!(
        demand.plans.trips(&network, 0),
        [(60_000, vec![links["ab"], links["bc"]])]
    );
    assert!(demand.left_out.1.unwrap().contains("nowhere"));
}

#[test]
fn sumo_networks_lights_and_routes_are_read() {
    let net = "<net><edge id=':b_0' function='internal'><lane id='x' length='1' speed='5'/></edge>
        <edge id='ab' from='a' to='b' priority='1'><lane id='ab_0' length='100' speed='10'/><lane id='ab_1' length='100' speed='10'/></edge>
        <edge id='cb' from='c' to='b'><lane id='cb_0' length='50' speed='10'/></edge>
        <edge id='bd' from='b' to='d'><lane id='bd_0' length='200' speed='20'/></edge>
        <tlLogic id='b' type='static' programID='0' offset='10'><phase duration='30' state='GGr'/><phase duration='5' state='yyr'/><phase duration='25' state='rrG'/></tlLogic>
        <junction id='a' type='dead_end' x='0' y='0'/><junction id='b' type='traffic_light' x='100' y='0'/>
        <junction id='c' type='dead_end' x='100' y='50'/><junction id='d' type='dead_end' x='300' y='0'/>
        <connection from='ab' to='bd' fromLane='0' toLane='0' tl='b' linkIndex='0'/><connection from='ab' to='bd' fromLane='1' toLane='0' tl='b' linkIndex='1'/>
        <connection from='cb' to='bd' fromLane='0' toLane='0' tl='b' linkIndex='2'/></net>";
    let network = Arc::new(read(&file("net.xml", net)).unwrap());
    let links = network.links_by_name();
    assert_eq!(network.links()[links["ab"] as usize].lanes, 2);
    let b = network.junctions()[network.junctions_by_name()["b"] as usize];
    let Control::Signal { program, offset_ms } = b.control else {
        panic!("{b:?}")
    };
    let greens = &network.programs()[usize::from(program)].greens;
    let green = |name: &str| greens[usize::from(network.links()[links[name] as usize].approach)];
    assert_eq!(
        (offset_ms, green("ab"), green("cb")),
        (10_000, (0, 35_000), (35_000, 60_000))
    );
    let routes = "<routes><route id='r' edges='cb bd'/><vehicle id='1' depart='3' route='r'/>
        <vehicle id='2' depart='4.5'><route edges='ab bd'/></vehicle><trip id='3' depart='5' from='ab' to='bd'/>
        <flow id='f' begin='0' end='100' number='4' from='cb' to='bd'/><vehicle id='4' depart='1' route='none'/>
        <vehicle id='5' depart='triggered' route='r'/></routes>";
    let demand = demand(&pool(), &network, &file("rou.xml", routes), 100, 1).unwrap();
    assert_eq!((demand.plans.len(), demand.left_out.0), (7, 2));
    let names: Vec<String> = (0..4).map(|car| demand.names.get(car)).collect();
    assert_eq!(names, ["1", "2", "3", "f.0"]);
    let trips: Vec<u32> = (0..7)
        .map(|car| demand.plans.trips(&network, car)[0].0)
        .collect();
    assert_eq!(trips, [3000, 4500, 5000, 0, 25_000, 50_000, 75_000]);
    assert_eq!(
        demand.plans.trips(&network, 2)[0].1,
        [links["ab"], links["bd"]]
    );
}

#[test]
fn trips_without_a_route_are_reported_and_the_others_drive() {
    let network = Arc::new(read(&file("island.gr", "p tw 4 2\n1 2\n3 4\n")).unwrap());
    let table =
        "<NUMBER OF ZONES> 4\n<END OF METADATA>\nOrigin 1\n2 : 2.0; 3 : 1.0;\nOrigin 9\n1 : 1.0;";
    let demand = demand(&pool(), &network, &file("trips.tntp", table), 100, 1).unwrap();
    assert_eq!(demand.left_out.0, 2);
    let mut simulation =
        Simulation::new(&pool(), network, Arc::new(demand.plans), Physics::default()).unwrap();
    simulation.run(&pool(), 4000);
    assert_eq!(simulation.tally().arrived, 2);
}

#[test]
fn reports_match_the_formats_of_sumo_and_matsim() {
    let network = Arc::new(read(&file("out-network.xml", MATSIM)).unwrap());
    let plans = "<plans><person id='1'><plan><act end_time='5'/><leg mode='car'><route>ab bc</route></leg></plan></person>
        <person id='2'><plan><act end_time='5'/><leg mode='car'><route>ab</route></leg></plan></person></plans>";
    let demand = demand(&pool(), &network, &file("out-plans.xml", plans), 10, 1).unwrap();
    let mut simulation = Simulation::new(
        &pool(),
        network.clone(),
        Arc::new(demand.plans),
        Physics::default(),
    )
    .unwrap();
    simulation.record_events(true);
    let (mut events, mut edges, mut fcd, mut table) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut late = Vec::new();
    let mut reports: Vec<Box<dyn Report + '_>> = vec![
        Box::new(Events::new(&mut events, 0)),
        Box::new(Events::new(&mut late, 6000)),
        Box::new(Edges::new(&mut edges, 0, 60_000)),
        Box::new(Fcd::new(&mut fcd, 0, 10_000, Physics::default(), 1)),
        Box::new(Table::new(&mut table)),
    ];
    let labels = Labels {
        network: &network,
        cars: &demand.names,
        simulation: None,
    };
    let mut all = Vec::new();
    for _ in 0..12 {
        simulation.run(&pool(), 10);
        let events = simulation.take_events();
        all.extend_from_slice(&events);
        for report in &mut reports {
            report.take(labels, &events, simulation.now_ms()).unwrap();
        }
    }
    reports
        .iter_mut()
        .for_each(|report| report.finish(labels).unwrap());
    drop(reports);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let late = text(late);
    let (events, edges, fcd, table) = (text(events), text(edges), text(fcd), text(table));
    let expected = "time_ms,car,what,road
5000,1,departed,ab
5000,1,entered,ab
5000,2,departed,ab
7000,2,entered,ab
55000,1,left,ab
55000,1,entered,bc
57000,2,left,ab
57000,2,arrived,ab
105000,1,left,bc
105000,1,arrived,bc
";
    assert_eq!(table, expected);
    assert_eq!(events.matches("type=\"vehicle enters traffic\"").count(), 2);
    // The last road of a trip has no "left link".
    assert_eq!(events.matches("<event ").count(), 2 + 2 + 1 + 1 + 2 * 2);
    assert_eq!(events.matches("type=\"left link\"").count(), 1);
    assert!(events.trim_end().ends_with("</events>"));
    // A report that starts later contains the same lines, even if a car departed before its start.
    let from = events.find("<event time=\"7.000\"").unwrap();
    assert!(late.ends_with(&format!("<events version=\"1.0\">\n{}", &events[from..])));
    assert!(events[from..].contains("enters traffic\" person=\"2\""));
    assert!(edges.contains("<edge id=\"ab\" sampledSeconds=\"100.00\" density=\"1.67\" entered=\"2\" left=\"2\" traveltime=\"50.00\" speed=\"20.00\"/>"), "{edges}");
    assert!(fcd.contains("<vehicle id=\"1\" x=\"300.00\" y=\"-4.80\" angle=\"90.00\" type=\"car\" speed=\"20.00\" pos=\"300.00\" lane=\"ab_0\""), "{fcd}");
    assert_eq!(fcd.matches("<timestep").count(), 12);
    // Select western roads, roads with two lanes, fast roads, and every second car.
    let links = network.links_by_name();
    let wanted = |filter: Filter| {
        let matches =
            |car, road| filter.matches_vehicle(car) && filter.matches_link(&network, links[road]);
        [
            matches(0, "ab"),
            matches(0, "bc"),
            matches(1, "ab"),
            matches(1, "bc"),
        ]
    };
    let all_roads = Filter::default();
    let region = Some([0.0, -1.0, 10.0, 10.0]);
    assert_eq!(wanted(all_roads), [true; 4]);
    assert_eq!(
        wanted(Filter {
            region,
            ..all_roads
        }),
        [true, false, true, false]
    );
    assert_eq!(
        wanted(Filter {
            lanes: 2,
            ..all_roads
        }),
        [true, false, true, false]
    );
    assert_eq!(
        wanted(Filter {
            speed_mm_s: 15_000,
            ..all_roads
        }),
        [true, false, true, false]
    );
    assert_eq!(
        wanted(Filter {
            every: 2,
            ..all_roads
        }),
        [true, true, false, false]
    );
    assert!(all.len() > 8 && all.is_sorted());
}

#[test]
fn roads_and_demand_survive_a_round_trip_through_files() {
    use creel_traffic::city::City;
    use creel_traffic::demand::{gravity, write as demand_write};
    use creel_traffic::network::write;
    use creel_traffic::route::Router;
    let mut plan = City {
        noise: 30,
        avenue: 3,
        river: true,
        ..City::grid(9, 8)
    }
    .raw_network()
    .unwrap();
    plan.junctions[10].control = Control::Stop;
    plan.junctions[11].control = Control::Free;
    plan.junctions[20].control = Control::Priority;
    for link in plan
        .links
        .iter_mut()
        .filter(|link| [11, 20].contains(&link.to))
    {
        link.approach = u8::from(link.to == 20 && link.from == 19);
    }
    let network = Network::new(plan).unwrap();
    let router = Router::new(&pool(), &network);
    let wishes = gravity::Gravity {
        cars: 50,
        within_ms: 600_000,
        repeats: false,
        places: 5,
        seed: 3,
    };
    let (plans, _) = gravity::plans(&pool(), &network, &router, &wishes).unwrap();
    let physics = Physics::default();
    for (name, demand_name) in [
        ("back.net.xml", Some("back.rou.xml")),
        ("back.xml.gz", Some("back-plans.xml")),
        ("back.gr", None),
        ("back.tntp", Some("back-trips.tntp")),
    ] {
        let format = write::Format::of(Path::new(name)).unwrap();
        let mut text = Vec::new();
        write::network(&network, &physics, 1, format, &mut text).unwrap();
        let path = file(name, std::str::from_utf8(&text).unwrap());
        let assumed = Assumed {
            unit_mm: 1,
            ..Assumed::default()
        };
        let other =
            Network::new(creel_traffic::network::read::network(&path, &assumed, &pool()).unwrap())
                .unwrap();
        assert_eq!(other.links().len(), network.links().len(), "{name}");
        let of = |network: &Network| {
            let mut all: Vec<_> = (0..network.links().len() as u32)
                .map(|link| {
                    let road = network.links()[link as usize];
                    let ends = [road.from, road.to].map(|j| network.junction_file_index(j));
                    (
                        network.link_file_index(link),
                        ends,
                        road.length_mm,
                        network.flow(link, &physics),
                    )
                })
                .collect();
            all.sort_by_key(|road| road.0);
            all
        };
        for (a, b) in of(&network).into_iter().zip(of(&other)) {
            assert_eq!((a.0, a.1), (b.0, b.1), "{name}");
            if format != write::Format::Tntp {
                assert!(a.2.abs_diff(b.2) <= 1, "{name}: {a:?} {b:?}");
            }
            if [write::Format::Sumo, write::Format::Matsim].contains(&format) {
                assert!(
                    a.3.headway_ms.abs_diff(b.3.headway_ms) <= 1,
                    "{name}: {a:?} {b:?}"
                );
                assert!(
                    a.3.free_flow_ms.abs_diff(b.3.free_flow_ms) <= 2,
                    "{name}: {a:?} {b:?}"
                );
            }
        }
        let greens = |network: &Network, origin: u32| {
            let links = 0..network.links().len() as u32;
            let link = links
                .into_iter()
                .find(|&link| network.link_file_index(link) == origin);
            let road = network.links()[link.unwrap() as usize];
            match network.junctions()[road.to as usize].control {
                Control::Signal { program, .. } => {
                    let program = &network.programs()[usize::from(program)];
                    Some((program.cycle_ms, program.greens[usize::from(road.approach)]))
                }
                _ => None,
            }
        };
        if format == write::Format::Sumo {
            for origin in 0..network.links().len() as u32 {
                assert_eq!(greens(&network, origin), greens(&other, origin));
            }
            let origin = |j: u32| network.junction_file_index(j);
            for junction in 0..network.junctions().len() as u32 {
                let same = (0..)
                    .find(|&j| other.junction_file_index(j) == origin(junction))
                    .unwrap();
                let controls = [
                    network.junctions()[junction as usize],
                    other.junctions()[same as usize],
                ]
                .map(|j| j.control);
                match controls {
                    [
                        Control::Signal { offset_ms: a, .. },
                        Control::Signal { offset_ms: b, .. },
                    ] => assert_eq!(a, b),
                    [a, b] => assert_eq!(a, b),
                }
            }
        }
        let Some(demand_name) = demand_name else {
            continue;
        };
        let format = demand_write::Format::of(Path::new(demand_name)).unwrap();
        let mut text = Vec::new();
        demand_write::plans(&network, &plans, &Default::default(), format, &mut text).unwrap();
        let path = file(demand_name, std::str::from_utf8(&text).unwrap());
        let back = demand(&pool(), &other, &path, usize::MAX, 1).unwrap();
        assert_eq!(back.left_out.0, 0, "{demand_name}: {:?}", back.left_out.1);
        let roads = |network: &Network, plans: &Plans| {
            let mut all: Vec<Vec<u32>> = (0..plans.len() as u32)
                .flat_map(|car| plans.trips(network, car))
                .filter(|trip| !trip.1.is_empty())
                .map(|trip| {
                    trip.1
                        .iter()
                        .map(|&link| network.link_file_index(link))
                        .collect()
                })
                .collect();
            all.sort();
            all
        };
        if format != demand_write::Format::Tntp {
            assert_eq!(
                roads(&network, &plans),
                roads(&other, &back.plans),
                "{demand_name}"
            );
        } else {
            assert_eq!(
                roads(&network, &plans).len(),
                roads(&other, &back.plans).len()
            );
        }
    }
}

#[test]
fn junctions_above_the_maximum_degree_are_rejected() {
    for star in [|i: u32| (1, i), |i: u32| (i, 1)] {
        let roads: String = (2..300)
            .map(|i| format!("a {} {} 1\n", star(i).0, star(i).1))
            .collect();
        let text = format!("p sp 299 298\n{roads}");
        let error = read(&file("star.gr", &text)).map(|_| ()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("junction 1: more than 256 roads"),
            "{error}"
        );
    }
}
