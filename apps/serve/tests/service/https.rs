//! Tests HTTPS with a self-signed certificate and curl as the client.

use std::process::Command;

use crate::process::{Folder, Service, run};

#[test]
fn tls_serves_both_http_versions() {
    let folder = Folder::new("https");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (folder.path("chain.pem"), folder.path("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let service = Service::start(&folder, &["--tls-cert", &chain, "--tls-key", &key]);
    let url = format!("https://localhost:{}/digest", service.address.port());
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let curl = Command::new("curl")
            .args([
                "-s",
                "--cacert",
                &chain,
                flag,
                "-d",
                "abc",
                "-w",
                " %{http_version}",
                &url,
            ])
            .output();
        let Ok(curl) = curl else {
            println!("skipped: curl is not installed");
            return;
        };
        let stdout = String::from_utf8(curl.stdout).unwrap();
        assert!(stdout.starts_with("{\"digest\":\"ba7816bf"), "{stdout}");
        assert!(stdout.ends_with(&format!(" {version}")), "{stdout}");
    }
    // A client that does not use TLS gets no response.
    assert_ne!(service.get("/health").status, 200);
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0));

    let wrong = run(&[
        "--store",
        "memory",
        "--key",
        &folder.path("k"),
        "--tls-cert",
        &key,
        "--tls-key",
        &key,
    ]);
    assert_eq!(wrong.status.code(), Some(65));
}
