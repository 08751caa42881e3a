//! Tests of logins, databases and TLS.

use std::process::Output;

use crate::process::{Folder, Service, eventually, run};
use crate::redis::is_ready;
use crate::redis_server::{Redis, free_port, is_installed};

/// Writes a file of the test that only its owner can read.
fn private_file(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.path(name);
    std::fs::write(&path, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    path
}

#[test]
fn a_missing_or_wrong_password_is_reported_until_it_is_right() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("password");
    let redis = Redis::start(&folder, "redis", &["--requirepass", "right"]);
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let wrong = private_file(&folder, "wrong", "wrong\n");
    let right = private_file(&folder, "right", "right\n");
    let file = |path| ["--store", store.as_str(), "--store-password-file", path];
    for (arguments, words) in [
        (
            &["--store", store.as_str()][..],
            "NOAUTH Authentication required.",
        ),
        (&file(&wrong)[..], "WRONGPASS"),
    ] {
        let service = Service::start(&folder, arguments);
        assert!(!is_ready(&service));
        assert_eq!(
            service.lines("keeping records").len(),
            0,
            "the start must say the truth"
        );
        eventually("the log says why", || {
            service.lines(words).len() == 1 && service.lines("waiting for the store").len() == 1
        });
        assert!(service.get("/ready").body.contains(words));
        assert_eq!(service.post("/sign", "hello").status, 503);
        assert_eq!(
            service.metric("creel_serve_store_errors_total{reason=\"auth\"}"),
            1.0
        );
        assert_eq!(
            service.metric("creel_serve_store_outages_total{reason=\"auth\"}"),
            1.0
        );
        assert!(service.lines("right").is_empty());
    }
    let service = Service::start(&folder, &file(&right));
    eventually("the store is available", || is_ready(&service));
    assert_eq!(service.post("/sign", "hello").status, 200);
    let password = [("CREEL_SERVE_STORE_PASSWORD", "right")];
    let service = Service::start_in(&folder, &["--store", &store], &password);
    eventually("the store is available", || is_ready(&service));

    // The password of a running server changes, and then changes back.
    let mut admin = redis.connect();
    let mut set = |password: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET")
            .arg("requirepass")
            .arg(password)
            .query::<()>(&mut admin)
            .unwrap();
        redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .query::<()>(&mut admin)
            .unwrap();
    };
    set("other");
    eventually("the log has the new reason", || {
        service.lines("WRONGPASS").len() == 1
    });
    set("right");
    eventually("the store is available again", || is_ready(&service));
}

#[test]
fn a_user_from_the_environment_and_a_database_are_used() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("user");
    let redis = Redis::start(&folder, "redis", &[]);
    redis.execute("ACL SETUSER signer on >a:b@c/d ~creel:* +@read +@write +ping +select");
    let password = private_file(&folder, "password", "a:b@c/d");
    let store = format!("redis://signer@127.0.0.1:{}/3", redis.port);
    let stores = ["--store", store.as_str()];
    let service = Service::start(
        &folder,
        &[&stores[..], &["--store-password-file", &password]].concat(),
    );
    eventually("the store is available", || is_ready(&service));
    assert_eq!(service.post("/sign", "hello").status, 200);
    assert!(
        redis.info("db3").starts_with("keys="),
        "{}",
        redis.info("db3")
    );

    let url = format!("redis://signer:a%3Ab%40c%2Fd@127.0.0.1:{}/4", redis.port);
    let service = Service::start_in(
        &folder,
        &["--store", &store],
        &[("CREEL_SERVE_STORE", &url)],
    );
    assert!(!is_ready(&service), "flags have priority");
    drop(service);
    let config = private_file(&folder, "serve.toml", &format!("store = \"{url}\"\n"));
    let service = Service::start_default(&folder, &["--config", &config], &[]);
    eventually("the store is available", || is_ready(&service));
    drop(service);
    let service = Service::start_default(&folder, &[], &[("CREEL_SERVE_STORE", &url)]);
    eventually("the store is available", || is_ready(&service));
    eventually("the start names the store", || {
        service.lines("redis://127.0.0.1").len() == 1
    });
    assert_eq!(service.lines("a:b").len() + service.lines("a%3Ab").len(), 0);
    assert!(
        redis.info("db4").starts_with("keys="),
        "{}",
        redis.info("db4")
    );

    // A user without the permission to write.
    redis.execute("ACL SETUSER reader on >read ~creel:* +@read +ping");
    let reader = [
        ("CREEL_SERVE_STORE_USER", "reader"),
        ("CREEL_SERVE_STORE_PASSWORD", "read"),
    ];
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let service = Service::start_in(&folder, &["--store", &store], &reader);
    assert!(!is_ready(&service));
    eventually("the log says why", || service.lines("NOPERM").len() == 1);
}

#[test]
fn a_password_on_the_command_line_is_rejected_and_not_printed() {
    let folder = Folder::new("argument");
    let shown = |output: &Output| {
        let both = [&output.stdout[..], &output.stderr[..]].concat();
        String::from_utf8(both).unwrap()
    };
    let data = folder.path("");
    for url in ["redis://:hidden@127.0.0.1", "rediss://me:hidden@[::1]:7/2"] {
        let output = run(&["--data", &data, "--store", url]);
        let shown = shown(&output);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains("--store-password-file"), "{shown}");
        assert!(!shown.contains("hidden"), "{shown}");
    }
    let empty = private_file(&folder, "empty", "\n");
    let missing = folder.path("missing");
    for (file, code) in [(&empty, 65), (&missing, 1)] {
        let output = run(&[
            "--store",
            "redis://127.0.0.1",
            "--store-password-file",
            file,
        ]);
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        assert!(shown(&output).contains(file.as_str()), "{}", shown(&output));
    }
}

#[test]
fn a_redis_address_without_a_port_uses_port_6379() {
    let folder = Folder::new("default-port");
    // There may be a server on this port or not. The name shows which one we try.
    let service = Service::start(&folder, &["--store", "redis://127.0.0.1"]);
    assert_eq!(service.get("/health").status, 200);
    eventually("the log names the port", || {
        !service.lines("redis://127.0.0.1:6379").is_empty()
    });
}

#[cfg(feature = "tls")]
#[test]
fn tls_needs_a_certificate_of_a_trusted_authority() {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    if !is_installed() {
        return;
    }
    let folder = Folder::new("redis-tls");
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, "test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let make = |name: &str, file: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let made = params.signed_by(&key, &issuer).unwrap();
        (
            private_file(&folder, &format!("{file}.pem"), &made.pem()),
            private_file(&folder, &format!("{file}.key"), &key.serialize_pem()),
        )
    };
    let ca = private_file(&folder, "ca.pem", &authority.pem());
    let (cert, key) = make("localhost", "server");
    let (client_cert, client_key) = make("client", "client");
    let port = free_port();
    let tls_port = port.to_string();
    let _redis = Redis::start(
        &folder,
        "redis",
        &[
            "--port",
            "0",
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--requirepass",
            "right",
        ],
    );
    let password = private_file(&folder, "password", "right");
    let store = format!("rediss://localhost:{port}/1");
    let by_address = format!("rediss://127.0.0.1:{port}");
    let plain = format!("redis://localhost:{port}");
    let login = ["--store-password-file", password.as_str()];
    let start = |store: &str, more: &[&str]| {
        let arguments = [&["--store", store][..], &login, more].concat();
        Service::start(&folder, &arguments)
    };
    let client = [
        "--store-cert",
        &client_cert,
        "--store-cert-key",
        &client_key,
    ];
    let trusted = [&["--store-ca", ca.as_str()][..], &client].concat();
    let service = start(&store, &trusted);
    eventually("the store is available", || is_ready(&service));
    assert_eq!(service.post("/sign", "hello").status, 200);
    drop(service);
    for (store, more, reason) in [
        (&store, &client[..], "(tls)"),
        (&by_address, &trusted[..], "(tls)"),
        (&store, &["--store-ca", &ca][..], "accepts no records"),
        (&plain, &[][..], "accepts no records"),
    ] {
        let service = start(store, more);
        assert!(!is_ready(&service));
        eventually("the log says why", || service.lines(reason).len() == 1);
        println!("{:?}", service.lines(reason));
    }
}
