//! Tests of a load beyond the capacity: every response is right or 503, and each is counted.

use crate::process::{Folder, Service, run};

#[test]
fn every_response_under_overload_is_correct_or_503_and_counted() {
    let folder = Folder::new("overload");
    let service = Service::start(
        &folder,
        &["--workers", "1", "--password-cost", "m=16384,t=2,p=1"],
    );
    let url = format!("http://{}", service.address);
    // A check takes more than ten milliseconds, so one worker cannot serve this rate.
    let load = run(&[
        "load",
        &url,
        "--request",
        "check=3,sign=1",
        "--rate",
        "400",
        "--step",
        "3s",
        "--connections",
        "64",
        "--check",
        "--timeout",
        "60s",
        "--format",
        "json",
        "-q",
    ]);
    let report: serde_json::Value = serde_json::from_slice(&load.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&load.stderr)));
    let step = &report["steps"][0];
    let count = |name: &str| step[name].as_u64().unwrap();
    for name in ["wrong", "other", "errors", "timeouts"] {
        assert_eq!(count(name), 0, "{name}: {step}");
    }
    assert!(count("good") > 0 && count("refused") > 0, "{step}");
    assert_eq!(count("good") + count("refused"), count("sent"), "{step}");
    let answers = |status: u16| {
        ["sign", "password_check"]
            .map(|route| {
                service.metric(&format!(
                    "creel_serve_requests_total{{route=\"{route}\",status=\"{status}\"}}"
                ))
            })
            .iter()
            .sum::<f64>() as u64
    };
    assert_eq!(
        (answers(200), answers(503)),
        (count("good"), count("refused"))
    );
    // No request is left in the queue.
    assert_eq!(service.metric("creel_serve_waiting"), 0.0);
    assert_eq!(service.get("/health").status, 200);
}
