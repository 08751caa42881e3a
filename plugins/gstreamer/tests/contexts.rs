//! Checks the settings of contexts.

mod common;

use common::{Pipeline, SINK};
use gst::prelude::*;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

#[test]
fn any_element_of_a_context_makes_it_visible() {
    let pipeline = Pipeline::parse(&format!(
        "creel-audiotestsrc observe=true context=visible ! creel-queue context=visible ! {SINK}"
    ));
    // The queue comes first, because the states of the elements change from the sink to the source.
    pipeline.set_state(gst::State::Playing);
    let name = format!("creel/{}/0", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    assert!(UnixStream::connect_addr(&address).is_ok());
}

#[test]
fn each_documented_placement_is_accepted() {
    common::init();
    let source = gst::ElementFactory::make("creel-audiotestsrc");
    let source = source.property("context", "placed").build().unwrap();
    let blurb = source
        .find_property("placement")
        .unwrap()
        .blurb()
        .unwrap()
        .to_string();
    let list = blurb
        .split_once(": ")
        .unwrap()
        .1
        .replace("or a list such as ", "");
    assert!(list.split(", ").count() >= 9, "{list}");
    for placement in list.split(", ") {
        // The machine may have fewer CPUs than the list in the example.
        if placement.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        source.set_property("placement", placement);
        assert!(source.set_state(gst::State::Ready).is_ok(), "{placement}");
        source.set_state(gst::State::Null).unwrap();
    }
}
