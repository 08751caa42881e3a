//! Checks that cars which depart while a road is closed drive around it, too.

#[path = "common/program.rs"]
mod program;

use program::{json, place};

/// The roads of a network in which two ways lead from `a` to `d`: the shorter one over `b`, and
/// the longer one over `c1` and `c2`.
const EDGES: [(&str, &str, &str, u32); 5] = [
    ("a", "A", "B", 200),
    ("b", "B", "C", 200),
    ("c1", "B", "E", 300),
    ("c2", "E", "C", 300),
    ("d", "C", "D", 200),
];

#[test]
fn cars_that_depart_later_drive_around_a_closed_road() {
    let edge = |(name, from, to, length): (&str, &str, &str, u32)| {
        format!(
            "<edge id=\"{name}\" from=\"{from}\" to=\"{to}\"><lane id=\"{name}_0\" index=\"0\" speed=\"20\" length=\"{length}\"/></edge>"
        )
    };
    let junction = |(name, x): (&str, u32)| {
        format!("<junction id=\"{name}\" type=\"unregulated\" x=\"{x}\" y=\"0\"/>")
    };
    let edges: String = EDGES.into_iter().map(edge).collect();
    let junctions = [("A", 0), ("B", 200), ("C", 400), ("D", 600), ("E", 300)];
    let junctions: String = junctions.into_iter().map(junction).collect();
    let car = |index: u32| {
        let depart = index * 20;
        format!("<vehicle id=\"{index}\" depart=\"{depart}\"><route edges=\"a b d\"/></vehicle>")
    };
    let cars: String = (0..10).map(car).collect();
    let files = ["later.net.xml", "later.rou.xml", "later.csv", "later.xml"].map(place);
    std::fs::write(&files[0], format!("<net>{edges}{junctions}</net>")).unwrap();
    std::fs::write(&files[1], format!("<routes>{cars}</routes>")).unwrap();
    std::fs::write(&files[2], "1,b,close\n").unwrap();
    let [network, demand, table, counts] = files.each_ref().map(|file| file.to_str().unwrap());
    let run = |incidents: &[&str]| {
        let begin = [
            "run",
            "--network",
            network,
            "--demand",
            demand,
            "--seconds",
            "300",
        ];
        let reports = ["--turn-counts", counts, "--interval", "300"];
        let summary = json(&[&begin[..], &reports, incidents].concat());
        let counts = std::fs::read_to_string(counts).unwrap();
        (summary["arrived"].as_u64().unwrap(), counts)
    };
    let (arrived, counts) = run(&[]);
    assert_eq!(arrived, 10);
    assert!(
        counts.contains("from=\"a\" to=\"b\" count=\"10\""),
        "{counts}"
    );
    let (arrived, counts) = run(&["--incidents", table]);
    assert_eq!(arrived, 10);
    assert!(
        counts.contains("from=\"a\" to=\"c1\" count=\"10\""),
        "{counts}"
    );
    assert!(!counts.contains("to=\"b\""), "{counts}");
    for file in &files {
        std::fs::remove_file(file).unwrap();
    }
}
