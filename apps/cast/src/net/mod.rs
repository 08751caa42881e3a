//! The transport of streams: RTP and RTCP, batched UDP, TCP, session descriptions and captures.

pub(crate) mod arrival;
pub(crate) mod client_registry;
pub(crate) mod control_port;
#[cfg(feature = "formats")]
mod fragments;
pub(crate) mod identity;
pub(crate) mod options;
pub(crate) mod overflow;
#[cfg(feature = "formats")]
pub(crate) mod pcap;
#[cfg(not(feature = "formats"))]
#[path = "pcap_disabled.rs"]
pub(crate) mod pcap;
pub(crate) mod ports;
pub(crate) mod rtcp;
pub(crate) mod rtp;
#[cfg(feature = "formats")]
pub(crate) mod sdp;
pub(crate) mod session;
pub(crate) mod tcp;
#[cfg(feature = "formats")]
mod tunnel;
pub(crate) mod udp;
pub(crate) mod unreachable;
pub(crate) mod xr;
