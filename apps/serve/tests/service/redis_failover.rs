//! Tests of a failover by Sentinel and of a cluster, both under load.

use crate::process::{Folder, Service, eventually};
use crate::redis::{Load, has_recovered, is_ready, makes_progress};
use crate::redis_server::{Redis, is_installed};

/// Waits until a master has a replica that receives its writes.
fn has_replica(master: &Redis) {
    eventually("the replica is connected", || {
        master.info("slave0").contains("state=online")
    });
}

/// Starts a master, a replica of it, and a Sentinel that watches them.
fn watched_pair(folder: &Folder) -> [Redis; 3] {
    let master = Redis::start(folder, "master", &[]);
    let port = master.port.to_string();
    let replica = Redis::start(folder, "replica", &["--replicaof", "127.0.0.1", &port]);
    has_replica(&master);
    let sentinel = Redis::sentinel(folder, "sentinel", master.port, "");
    [master, replica, sentinel]
}

#[test]
fn sentinel_fails_over_to_the_replica_without_losing_a_record() {
    if !is_installed() {
        return;
    }
    for signal in ["KILL", "STOP"] {
        let folder = Folder::new("sentinel");
        let login = ["--requirepass", "right", "--masterauth", "right"];
        let master = Redis::start(&folder, "master", &login);
        let port = master.port.to_string();
        let replica = ["--replicaof", "127.0.0.1", &port];
        let _replica = Redis::start(&folder, "replica", &[&replica[..], &login].concat());
        has_replica(&master);
        let lines = "sentinel auth-pass main right\nrequirepass watch\n";
        let sentinel = Redis::sentinel(&folder, "sentinel", master.port, lines);
        // The first of the Sentinels does not exist.
        let store = format!(
            "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/main/2",
            sentinel.port
        );
        let passwords = [
            ("CREEL_SERVE_STORE_PASSWORD", "right"),
            ("CREEL_SERVE_SENTINEL_PASSWORD", "watch"),
        ];
        let arguments = ["--store", store.as_str()];
        let service = Service::start_in(&folder, &arguments, &passwords);
        eventually("the store is available", || is_ready(&service));
        let load = Load::start(&folder, &service);
        makes_progress(&service);
        // The Sentinel must know the replica before the master is lost.
        let mut watch = sentinel.connect();
        eventually("the Sentinel knows the replica", || {
            let mut auth = redis::cmd("AUTH");
            auth.arg("watch").query::<()>(&mut watch).unwrap();
            let mut replicas = redis::cmd("SENTINEL");
            let replicas = replicas.arg("REPLICAS").arg("main");
            let replicas = replicas.query::<Vec<redis::Value>>(&mut watch).unwrap();
            format!("{replicas:?}").contains("master-link-status")
                && !format!("{replicas:?}").contains("s_down")
        });
        master.signal(signal);
        eventually("the service detects the failure", || !is_ready(&service));
        eventually("the replica has become the master", || is_ready(&service));
        makes_progress(&service);
        has_recovered(&service, 1);
        master.signal(if signal == "STOP" { "CONT" } else { "KILL" });
        load.finish(&service);
        println!("{:?}", service.lines("the store"));
    }
}

#[test]
fn a_planned_failover_loses_no_record() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("planned");
    let [master, replica, sentinel] = watched_pair(&folder);
    let store = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the store is available", || is_ready(&service));
    let load = Load::start(&folder, &service);
    makes_progress(&service);
    // The old master keeps running. For some seconds after the promotion of its replica, it is a
    // master that accepts writes, and it has no replica.
    eventually("the Sentinel knows the replica and begins", || {
        let begun: redis::RedisResult<()> = sentinel.call("SENTINEL FAILOVER main");
        begun.is_ok()
    });
    eventually("the replica is the master", || {
        replica.info("role") == "master"
    });
    eventually("the old master is a replica", || {
        master.info("role") == "slave"
    });
    eventually("the store is available", || is_ready(&service));
    makes_progress(&service);
    load.finish(&service);
    assert!(service.metric("creel_serve_store_outages_total{reason=\"failover\"}") >= 1.0);
    println!("{:?}", service.lines("the store"));
}

#[test]
fn a_record_is_not_acknowledged_before_a_replica_has_it() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("confirmed");
    let [_master, replica, sentinel] = watched_pair(&folder);
    let store = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let service = Service::start(&folder, &["--store", &store]);
    let arguments = ["--store", store.as_str(), "--store-replicas", "0"];
    let careless = Service::start(&folder, &arguments);
    for service in [&service, &careless] {
        // On a busy machine, the first confirmation of the replica may come too late.
        eventually("a record is acknowledged", || {
            service.post("/sign", "first").status == 200
        });
    }
    let before = service.lines("(replicas)").len();
    // The master still believes that the replica is there, but the replica receives nothing. After a
    // failover, it would not have the record.
    replica.signal("STOP");
    assert_eq!(careless.post("/sign", "second").status, 200);
    assert_eq!(service.post("/sign", "second").status, 503);
    eventually("the log says why", || {
        service.lines("(replicas)").len() > before
    });
    replica.signal("CONT");
    eventually("a record is acknowledged again", || {
        service.post("/sign", "second").status == 200
    });
}

/// Starts the nodes of a cluster and gives each of them a part of the slots.
fn start_cluster(folder: &Folder, replicas: bool) -> Vec<Redis> {
    let arguments = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--cluster-replica-validity-factor",
        "0",
    ];
    let count = if replicas { 6 } else { 3 };
    let start = |number: usize| Redis::start(folder, &format!("node{number}"), &arguments);
    let nodes: Vec<Redis> = (0..count).map(start).collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        node.execute(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for node in &nodes[1..] {
        node.execute(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port));
    }
    eventually("the nodes know each other", || {
        nodes.iter().all(|node| {
            let text: String = node.call("CLUSTER INFO").unwrap_or_default();
            text.contains("cluster_state:ok") && text.contains(&format!("known_nodes:{count}"))
        })
    });
    for (master, replica) in nodes.iter().zip(nodes.iter().skip(3)) {
        let id: String = master.call("CLUSTER MYID").unwrap();
        eventually("the replica knows its master", || {
            let done: redis::RedisResult<()> = replica.call(&format!("CLUSTER REPLICATE {id}"));
            done.is_ok()
        });
        has_replica(master);
    }
    nodes
}

/// Moves the slot of a key from its master to another one, as `redis-cli --cluster reshard` does.
fn move_slot(nodes: &[Redis], key: &str) {
    let slot: u32 = nodes[0].call(&format!("CLUSTER KEYSLOT {key}")).unwrap();
    let from = [5461, 10923, 16384]
        .iter()
        .position(|end| slot < *end)
        .unwrap();
    let (from, to) = (&nodes[from], &nodes[(from + 1) % 3]);
    let (from_id, to_id): (String, String) = (
        from.call("CLUSTER MYID").unwrap(),
        to.call("CLUSTER MYID").unwrap(),
    );
    to.execute(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    from.execute(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    let keys: Vec<String> = from
        .call(&format!("CLUSTER GETKEYSINSLOT {slot} 1000"))
        .unwrap();
    for key in keys {
        from.execute(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", to.port));
    }
    // The slot is being moved, so the old master answers a command on the counter with `ASK`.
    std::thread::sleep(std::time::Duration::from_millis(300));
    for node in [to, from] {
        node.execute(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    }
}

#[test]
fn redirections_of_a_cluster_are_followed_while_a_slot_moves() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("cluster");
    let nodes = start_cluster(&folder, false);
    let ports: Vec<String> = nodes.iter().map(|node| node.port.to_string()).collect();
    // The address of one server is enough, because the server redirects us.
    let one = format!("redis://127.0.0.1:{}", ports[0]);
    let all = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", ports[2]);
    for store in [&one, &all] {
        let service = Service::start(&folder, &["--store", store]);
        eventually("the store is available", || is_ready(&service));
        let load = Load::start(&folder, &service);
        makes_progress(&service);
        if *store == one {
            move_slot(&nodes, "creel:signed");
        }
        makes_progress(&service);
        load.finish(&service);
        assert!(
            service.lines("(cluster)").is_empty(),
            "{:?}",
            service.lines("")
        );
    }
}

#[test]
fn a_cluster_fails_over_without_losing_a_record() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("cluster-failover");
    let mut nodes = start_cluster(&folder, true);
    let store = format!("redis+cluster://127.0.0.1:{}", nodes[0].port);
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the store is available", || is_ready(&service));
    let load = Load::start(&folder, &service);
    makes_progress(&service);
    nodes.remove(1).kill();
    eventually("the service detects the failure", || !is_ready(&service));
    eventually("the replica has become the master", || is_ready(&service));
    makes_progress(&service);
    load.finish(&service);
    println!("{:?}", service.lines("the store"));
}
