//! The transport of streams: RTP and RTCP, batched UDP, TCP, session descriptions and captures.

pub(crate) mod arrival;
pub(crate) mod client_registry;
pub(crate) mod control_port;
pub(crate) mod identity;
pub(crate) mod options;
pub(crate) mod overflow;
pub(crate) mod pcap;
pub(crate) mod ports;
pub(crate) mod rtcp;
pub(crate) mod rtp;
pub(crate) mod sdp;
pub(crate) mod session;
pub(crate) mod tcp;
mod tunnel;
pub(crate) mod udp;
pub(crate) mod unreachable;
pub(crate) mod xr;
