//! How streams travel: RTP and RTCP, UDP in batches, TCP, session descriptions, captures.

pub(crate) mod client_registry;
pub(crate) mod control_port;
pub(crate) mod identity;
pub(crate) mod options;
pub(crate) mod overflow;
pub(crate) mod pcap;
pub(crate) mod ports;
pub(crate) mod rtcp;
pub(crate) mod rtp;
pub(crate) mod session;
pub(crate) mod tcp;
pub(crate) mod udp;
