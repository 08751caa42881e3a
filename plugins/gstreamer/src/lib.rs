//! GStreamer elements that share the threads of [Creel](creel)'s pools.
//!
//! Each element names a *context*, which is a pool that all elements with this name share. A
//! pipeline with a thousand streams then runs on a few threads, in contrast to GStreamer's own
//! elements, which start a thread for each stream.
//!
//! The module `stream` describes how the elements meet GStreamer's rules about threads.

mod appsrc;
mod audiotestsrc;
mod blocking;
mod bridge;
mod clock;
mod clocksync;
mod context;
mod fifo;
mod gate;
mod hub;
mod queue;
mod rtpdtmfsrc;
mod selector;
mod settings;
mod socket;
mod source;
mod stream;
mod tcpclientsrc;
mod times;
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

/// Implements the class of an element that produces buffers and has no sink pad.
macro_rules! source_element {
    ($implementation:ty, $title:literal, $class:literal, $description:literal, $caps:expr) => {
        impl GstObjectImpl for $implementation {}

        impl ElementImpl for $implementation {
            fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
                static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
                    gst::subclass::ElementMetadata::new($title, $class, $description, crate::AUTHOR)
                });
                Some(&METADATA)
            }

            fn pad_templates() -> &'static [gst::PadTemplate] {
                static TEMPLATES: LazyLock<[gst::PadTemplate; 1]> =
                    LazyLock::new(|| [crate::src_template(&$caps)]);
                &*TEMPLATES
            }

            fn change_state(
                &self,
                transition: gst::StateChange,
            ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
                source::change_state(self, transition)
            }

            fn send_event(&self, event: gst::Event) -> bool {
                source::send_event(self, event)
            }
        }
    };
}
pub(crate) use source_element;

/// Adds the pads of a new element, and sets its flags.
fn add_pads(element: &impl IsA<gst::Element>, pads: &[&gst::Pad], flags: gst::ElementFlags) {
    for pad in pads {
        element
            .add_pad(*pad)
            .expect("the element has no such pad yet");
    }
    element.set_element_flags(flags);
}

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
    let elements = [
        ("creel-appsrc", appsrc::AppSrcElement::static_type()),
        (
            "creel-audiotestsrc",
            audiotestsrc::AudioTestSrcElement::static_type(),
        ),
        (
            "creel-blocking-adapter",
            blocking::BlockingAdapterElement::static_type(),
        ),
        (
            "creel-clocksync",
            clocksync::ClockSyncElement::static_type(),
        ),
        (
            "creel-input-selector",
            selector::InputSelectorElement::static_type(),
        ),
        ("creel-intersink", bridge::InterSinkElement::static_type()),
        ("creel-intersrc", bridge::InterSrcElement::static_type()),
        ("creel-proxysink", bridge::ProxySinkElement::static_type()),
        ("creel-proxysrc", bridge::ProxySrcElement::static_type()),
        ("creel-queue", queue::QueueElement::static_type()),
        (
            "creel-rtpdtmfsrc",
            rtpdtmfsrc::RtpDtmfSrcElement::static_type(),
        ),
        (
            "creel-tcpclientsrc",
            tcpclientsrc::TcpClientSrcElement::static_type(),
        ),
        ("creel-udpsink", udpsink::UdpSinkElement::static_type()),
        ("creel-udpsrc", udpsrc::UdpSrcElement::static_type()),
    ];
    for (name, element) in elements {
        gst::Element::register(Some(plugin), name, gst::Rank::NONE, element)?;
    }
    gst::Tracer::register(Some(plugin), "creel-times", times::Tracer::static_type())
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
