//! The properties of `creel-udpsink`.

use gst::glib;
use gst::prelude::*;
use std::sync::LazyLock;

use crate::context;

pub(super) static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> =
    LazyLock::new(|| {
        let string = |name: &str, blurb: &str, default: Option<&str>| {
            glib::ParamSpecString::builder(name)
                .nick(name)
                .blurb(blurb)
                .default_value(default)
                .mutable_ready()
                .build()
        };
        let int = |name: &str, blurb: &str, min, max, default| {
            glib::ParamSpecInt::builder(name)
                .nick(name)
                .blurb(blurb)
                .minimum(min)
                .maximum(max)
                .default_value(default)
                .mutable_ready()
                .build()
        };
        let hops = |name: &str, blurb: &str, default| {
            glib::ParamSpecUInt::builder(name)
                .nick(name)
                .blurb(blurb)
                .maximum(255)
                .default_value(default)
                .mutable_ready()
                .build()
        };
        let boolean = |name: &str, blurb: &str, default| {
            glib::ParamSpecBoolean::builder(name)
                .nick(name)
                .blurb(blurb)
                .default_value(default)
                .mutable_ready()
                .build()
        };
        let socket = |name: &str, blurb: &str| {
            let builder = glib::ParamSpecObject::builder::<gio::Socket>(name)
                .nick(name)
                .blurb(blurb);
            match name.starts_with("used") {
                true => builder.read_only().build(),
                false => builder.mutable_ready().build(),
            }
        };
        let mut all = context::properties();
        all.extend([
        boolean(
            "sync",
            "Whether to send each buffer at its time by the pipeline's clock",
            true,
        ),
        string(
            "bind-address",
            "Address to send from, with IPv4",
            Some("0.0.0.0"),
        ),
        int(
            "bind-port",
            "Port to send from, with IPv4. 0 lets the system choose one",
            0,
            65_535,
            0,
        ),
        string(
            "bind-address-v6",
            "Address to send from, with IPv6",
            Some("::"),
        ),
        int(
            "bind-port-v6",
            "Port to send from, with IPv6. 0 lets the system choose one",
            0,
            65_535,
            0,
        ),
        socket("socket", "Socket to use for IPv4 instead of a new one"),
        socket(
            "used-socket",
            "A duplicate of the socket that is in use for IPv4",
        ),
        socket("socket-v6", "Socket to use for IPv6 instead of a new one"),
        socket(
            "used-socket-v6",
            "A duplicate of the socket that is in use for IPv6",
        ),
        boolean("reuse", "Whether other sockets may use the same ports", true),
        boolean(
            "auto-multicast",
            "Whether to join the multicast groups among the clients",
            true,
        ),
        string(
            "multicast-iface",
            "Interface through which multicast datagrams are sent: its name or its address",
            None,
        ),
        boolean(
            "loop",
            "Whether multicast datagrams also reach this machine",
            true,
        ),
        hops("ttl", "Time to live of datagrams to one receiver", 64),
        hops("ttl-mc", "Time to live of multicast datagrams", 1),
        int(
            "qos-dscp",
            "Differentiated services code point of the datagrams. -1 leaves the system's default",
            -1,
            63,
            -1,
        ),
        glib::ParamSpecString::builder("clients")
            .nick("Clients")
            .blurb("Receivers as a list HOST:PORT,HOST:PORT. IPv6 addresses are in brackets")
            .default_value(Some("127.0.0.1:5004"))
            .mutable_playing()
            .build(),
        crate::stats_property(),
    ]);
        all
    });
