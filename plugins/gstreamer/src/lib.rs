//! GStreamer elements that share the threads of [Creel](creel)'s pools.
//!
//! Each element names a *context*, which is a pool that all elements with this name share. A
//! pipeline with a thousand streams then runs on a few threads, in contrast to GStreamer's own
//! elements, which start a thread for each stream.
//!
//! The module `stream` describes how the elements meet GStreamer's rules about threads.

mod clock;
mod clocksync;
mod context;
mod fifo;
mod gate;
mod queue;
mod settings;
mod socket;
mod source;
mod stream;
mod udpsink;
mod udpsrc;

use gst::glib;
use gst::prelude::*;

const AUTHOR: &str = "The Creel developers";

/// Declares the type of an element, given the type that implements it.
macro_rules! element {
    ($element:ident, $implementation:ty) => {
        gst::glib::wrapper! {
            pub struct $element(ObjectSubclass<$implementation>)
                @extends gst::Element, gst::Object;
        }
    };
}
pub(crate) use element;

/// Returns the template of a source pad that is always there.
fn src_template(caps: &gst::Caps) -> gst::PadTemplate {
    template(
        "src",
        gst::PadDirection::Src,
        gst::PadPresence::Always,
        caps,
    )
}

/// Returns the template of a sink pad that is always there.
fn sink_template(caps: &gst::Caps) -> gst::PadTemplate {
    template(
        "sink",
        gst::PadDirection::Sink,
        gst::PadPresence::Always,
        caps,
    )
}

fn template(
    name: &str,
    direction: gst::PadDirection,
    presence: gst::PadPresence,
    caps: &gst::Caps,
) -> gst::PadTemplate {
    gst::PadTemplate::new(name, direction, presence, caps).expect("the template is valid")
}

/// Returns the property `stats`.
fn stats_property() -> glib::ParamSpec {
    glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
        .nick("Statistics")
        .blurb("What the element and its context have done since the element was created")
        .read_only()
        .build()
}

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let register = |name, type_| gst::Element::register(Some(plugin), name, gst::Rank::NONE, type_);
    register(
        "creel-clocksync",
        clocksync::ClockSyncElement::static_type(),
    )?;
    register("creel-queue", queue::QueueElement::static_type())?;
    register("creel-udpsink", udpsink::UdpSinkElement::static_type())?;
    register("creel-udpsrc", udpsrc::UdpSrcElement::static_type())?;
    Ok(())
}

mod plugin {
    // The macro writes no documentation.
    #![allow(missing_docs)]

    use super::*;

    gst::plugin_define!(
        creel,
        "GStreamer elements that share the threads of Creel's pools",
        plugin_init,
        env!("CARGO_PKG_VERSION"),
        "MIT/X11",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_NAME"),
        "https://docs.rs/creel",
        "2026-11-26"
    );
}

/// Registers the elements in this process. Call it in a program that links this crate, because no
/// plugin file is loaded then.
///
/// # Errors
///
/// Returns an error if GStreamer cannot register the plugin.
pub fn register() -> Result<(), glib::BoolError> {
    plugin::plugin_register_static()
}
