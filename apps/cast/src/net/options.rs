//! Options of a socket other than its address: multicast, the network interface, the service class.

use super::session::Senders;
use crate::error::Error;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};

/// A multicast group, which every interface with an address can reach.
const ANY_GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 1), 9);

/// The options of every socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The differentiated services code point, 0 to 63. For example, 46 is expedited forwarding.
    pub dscp: Option<u8>,
    /// The name of the network interface on which to send and to join multicast groups.
    pub interface: Option<String>,
    /// The number of hops that a multicast packet may take.
    pub ttl: Option<u8>,
}

impl Options {
    /// Returns the index of the interface, or `None` to let the system choose.
    fn index(&self) -> io::Result<Option<u32>> {
        let Some(name) = &self.interface else {
            return Ok(None);
        };
        interface_index(name).map(Some).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot use the interface {name}: {error}"),
            )
        })
    }

    /// Creates a receiving socket at `address`. If the address is a multicast group, the socket
    /// joins it. With IPv4, it joins the group only for the senders that `sources` names.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is in use, the address does not belong to this machine, or the
    /// group cannot be joined.
    pub(crate) fn receiver(&self, address: SocketAddr, sources: &Senders) -> io::Result<UdpSocket> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        let group = address.ip();
        if group.is_multicast() {
            // Several receivers of a group may share the port.
            socket.set_reuse_address(true)?;
        }
        if address.is_ipv6() {
            // A port of the same number may belong to another program for IPv4, so we do not take
            // it, unless the address is unspecified.
            socket.set_only_v6(!group.is_unspecified())?;
        }
        let address = self.with_scope(address)?;
        socket.bind(&address.into())?;
        if group.is_multicast() {
            self.join(&socket, address, sources)?;
        }
        self.set_packet_options(&socket, address)?;
        Ok(socket.into())
    }

    /// Adds the scope of the interface to an IPv6 address. Link-local and multicast addresses are
    /// incomplete without a scope.
    fn with_scope(&self, mut address: SocketAddr) -> io::Result<SocketAddr> {
        if let SocketAddr::V6(address) = &mut address
            && address.scope_id() == 0
            && (address.ip().is_multicast() || address.ip().is_unicast_link_local())
        {
            address.set_scope_id(self.index()?.unwrap_or(0));
        }
        Ok(address)
    }

    fn join(&self, socket: &Socket, on: SocketAddr, sources: &Senders) -> io::Result<()> {
        match (on, sources) {
            (SocketAddr::V4(group), Senders::Any | Senders::Except(_)) => {
                let on = self.index()?.map_or(
                    InterfaceIndexOrAddress::Address(Ipv4Addr::UNSPECIFIED),
                    InterfaceIndexOrAddress::Index,
                );
                socket.join_multicast_v4_n(group.ip(), &on)
            }
            (SocketAddr::V4(group), Senders::Only(sources)) => {
                let on = self.interface_ipv4(group)?;
                for source in sources {
                    let IpAddr::V4(source) = source else {
                        return Err(io::ErrorKind::InvalidInput.into());
                    };
                    socket.join_ssm_v4(source, group.ip(), &on)?;
                }
                Ok(())
            }
            // IPv6 joins the whole group, and the receiver ignores the packets of other senders.
            (SocketAddr::V6(group), _) => socket.join_multicast_v6(group.ip(), group.scope_id()),
        }
    }

    /// Returns the address by which a source-specific join names the interface, and to which a
    /// sending socket is bound. Without an interface it is unspecified, and the system chooses by
    /// its routes.
    ///
    /// The address is the source address that a packet to the group would have. To find it, we bind
    /// a socket to the interface and connect it to the group. This sends nothing.
    fn interface_ipv4(&self, group: SocketAddrV4) -> io::Result<Ipv4Addr> {
        let name = match self.interface.as_deref() {
            None => return Ok(Ipv4Addr::UNSPECIFIED),
            Some("lo") => return Ok(Ipv4Addr::LOCALHOST),
            Some(name) => name,
        };
        self.index()?;
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        bind_device(&socket, Some(name))?;
        socket.connect(&group.into())?;
        match socket.local_addr()?.as_socket_ipv4() {
            Some(own) if !own.ip().is_unspecified() => Ok(*own.ip()),
            _ => Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("cannot use the interface {name}: it has no IPv4 address"),
            )),
        }
    }

    /// Creates a sending socket on any free port, for IPv4 or IPv6.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub(crate) fn sender(&self, is_ipv4: bool) -> io::Result<UdpSocket> {
        let any: IpAddr = match is_ipv4 {
            // Packets have the address of the interface, if it has one.
            true => self
                .interface_ipv4(ANY_GROUP)
                .unwrap_or(Ipv4Addr::UNSPECIFIED)
                .into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let address = SocketAddr::new(any, 0);
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if !is_ipv4 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        self.set_packet_options(&socket, address)?;
        Ok(socket.into())
    }

    /// Sets the options of the packets that the socket sends. Binds the socket to the interface
    /// that the user chose, except at a loopback address.
    fn set_packet_options(&self, socket: &Socket, address: SocketAddr) -> io::Result<()> {
        let index = self.index()?;
        if let Some(dscp) = self.dscp {
            set_traffic_class(socket, address, u32::from(dscp) << 2)?;
        }
        if address.is_ipv4() {
            if let Some(ttl) = self.ttl {
                socket.set_multicast_ttl_v4(ttl.into())?;
            }
        } else {
            if let Some(ttl) = self.ttl {
                socket.set_multicast_hops_v6(ttl.into())?;
            }
            if let Some(index) = index {
                socket.set_multicast_if_v6(index)?;
            }
        }
        let is_loopback = address.ip().is_loopback() && self.interface.as_deref() != Some("lo");
        if self.interface.is_some() && !is_loopback {
            bind_device(socket, self.interface.as_deref())?;
        }
        Ok(())
    }
}

/// Sets the traffic class of the packets that a socket sends.
#[cfg(unix)]
fn set_traffic_class(socket: &Socket, address: SocketAddr, class: u32) -> io::Result<()> {
    match address.is_ipv4() {
        true => socket.set_tos_v4(class),
        false => socket.set_tclass_v6(class),
    }
}

/// Returns an error, because Windows ignores the class that a program sets on a socket.
#[cfg(not(unix))]
fn set_traffic_class(_: &Socket, _: SocketAddr, _: u32) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system ignores the service class (DSCP) of a socket: leave out --dscp",
    ))
}

/// Returns the index of the interface of this name.
#[cfg(unix)]
fn interface_index(name: &str) -> io::Result<u32> {
    nix::net::if_::if_nametoindex(name).map_err(io::Error::from)
}

/// Returns an error, because the system cannot bind a socket to an interface.
#[cfg(not(unix))]
fn interface_index(_: &str) -> io::Result<u32> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system cannot bind a socket to an interface",
    ))
}

/// Makes a socket send and receive on one interface only.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn bind_device(socket: &Socket, interface: Option<&str>) -> io::Result<()> {
    socket.bind_device(interface.map(str::as_bytes))
}

/// Makes a socket send and receive on one interface only.
#[cfg(target_vendor = "apple")]
fn bind_device(socket: &Socket, interface: Option<&str>) -> io::Result<()> {
    let index = interface.map(interface_index).transpose()?;
    let index = index.and_then(std::num::NonZeroU32::new);
    match socket.local_addr()?.is_ipv6() {
        true => socket.bind_device_by_index_v6(index),
        false => socket.bind_device_by_index_v4(index),
    }
}

/// Returns an error if there is an interface, because this system cannot bind a socket to it.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn bind_device(_: &Socket, interface: Option<&str>) -> io::Result<()> {
    match interface {
        None => Ok(()),
        Some(name) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("cannot use the interface {name}: this system cannot bind a socket to it"),
        )),
    }
}

/// Requests a receive buffer of `bytes` bytes, unless the system reports twice as many bytes
/// already. Returns the size that the system reports. Linux reports twice the size that we
/// requested, because it adds as much for its overhead. There, the buffer therefore never becomes
/// smaller.
pub(crate) fn receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    if bytes > socket.recv_buffer_size()? / 2 {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.recv_buffer_size()
}

/// Requests a send buffer of `bytes` bytes like [`receive_buffer`].
pub(crate) fn send_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    if bytes > socket.send_buffer_size()? / 2 {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.send_buffer_size()
}

/// Returns a function that makes an [`Error`] of an I/O error. `what` states what could not be
/// done.
pub(crate) fn socket_error(what: impl ToString) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Socket(what.to_string(), error)
}
