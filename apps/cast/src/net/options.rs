//! A socket's options beyond its address: multicast, the interface, the service class.

use crate::error::Error;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};

/// What is asked of every socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The differentiated services code point, 0 to 63; 46 is expedited forwarding.
    pub dscp: Option<u8>,
    /// The interface that packets leave by and groups are joined on: its name.
    pub interface: Option<String>,
    /// The hops that a multicast packet may take.
    pub ttl: Option<u8>,
}

impl Options {
    /// The interface's index; none: the system chooses.
    fn index(&self) -> io::Result<Option<u32>> {
        let Some(name) = &self.interface else {
            return Ok(None);
        };
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let index = rustix::net::netdevice::name_to_index(&socket, name);
        index.map(Some).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("the interface {name}: {error}"))
        })
    }

    /// A receiving socket at `address`: if that is a multicast group, one that has joined it, and
    /// hears `source` only, if given.
    ///
    /// # Errors
    ///
    /// If the port is in use, the address is not this machine's, or the group cannot be joined.
    pub(crate) fn receiver(
        &self,
        address: SocketAddr,
        source: Option<IpAddr>,
    ) -> io::Result<UdpSocket> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        let group = address.ip();
        if group.is_multicast() {
            // Several receivers of one group may share the port.
            socket.set_reuse_address(true)?;
        }
        if address.is_ipv6() {
            // An IPv4 port of the same number is another's, unless any address will do.
            socket.set_only_v6(!group.is_unspecified())?;
        }
        let address = self.with_scope(address)?;
        socket.bind(&address.into())?;
        if group.is_multicast() {
            self.join(&socket, address, source)?;
        }
        self.set_packet_options(&socket, address)?;
        Ok(socket.into())
    }

    /// The address on the interface: of IPv6, what is of a link or an interface is not complete
    /// without.
    fn with_scope(&self, mut address: SocketAddr) -> io::Result<SocketAddr> {
        if let SocketAddr::V6(address) = &mut address
            && address.scope_id() == 0
            && (address.ip().is_multicast() || address.ip().is_unicast_link_local())
        {
            address.set_scope_id(self.index()?.unwrap_or(0));
        }
        Ok(address)
    }

    fn join(&self, socket: &Socket, on: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
        match (on, source) {
            (SocketAddr::V4(group), None) => {
                let on = self.index()?.map_or(
                    InterfaceIndexOrAddress::Address(Ipv4Addr::UNSPECIFIED),
                    InterfaceIndexOrAddress::Index,
                );
                socket.join_multicast_v4_n(group.ip(), &on)
            }
            (SocketAddr::V4(group), Some(IpAddr::V4(source))) => {
                let on = self.interface_ipv4(group)?;
                socket.join_ssm_v4(&source, group.ip(), &on)
            }
            // Of IPv6 the whole group comes, and its other sources are not heard.
            (SocketAddr::V6(group), _) => socket.join_multicast_v6(group.ip(), group.scope_id()),
            (SocketAddr::V4(_), Some(IpAddr::V6(_))) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The address by which a source-specific join names the interface; without one the system
    /// chooses by its routes.
    ///
    /// It is the one that a packet from there to the group would have, which a socket that is bound
    /// to the interface and connected to the group tells; nothing is sent.
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
                format!("the interface {name} has no IPv4 address"),
            )),
        }
    }

    /// A sending socket, on any port, of the family of `to`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn sender(&self, is_ipv4: bool) -> io::Result<UdpSocket> {
        let any: IpAddr = match is_ipv4 {
            true => Ipv4Addr::UNSPECIFIED.into(),
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

    /// What is asked of a packet that leaves.
    fn set_packet_options(&self, socket: &Socket, address: SocketAddr) -> io::Result<()> {
        let index = self.index()?;
        if address.is_ipv4() {
            if let Some(dscp) = self.dscp {
                socket.set_tos_v4(u32::from(dscp) << 2)?;
            }
            if let Some(ttl) = self.ttl {
                socket.set_multicast_ttl_v4(ttl.into())?;
            }
        } else {
            if let Some(dscp) = self.dscp {
                socket.set_tclass_v6(u32::from(dscp) << 2)?;
            }
            if let Some(ttl) = self.ttl {
                socket.set_multicast_hops_v6(ttl.into())?;
            }
            if let Some(index) = index {
                socket.set_multicast_if_v6(index)?;
            }
        }
        if self.interface.is_some() && !address.ip().is_loopback() {
            bind_device(socket, self.interface.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn bind_device(socket: &Socket, interface: Option<&str>) -> io::Result<()> {
    socket.bind_device(interface.map(str::as_bytes))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn bind_device(_: &Socket, _: Option<&str>) -> io::Result<()> {
    Ok(())
}

/// Asks for a receive buffer; what the system has made of it.
pub(crate) fn receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    socket.set_recv_buffer_size(bytes)?;
    socket.recv_buffer_size()
}

/// The error that names an address.
pub(crate) fn socket_error(address: impl ToString) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Socket(address.to_string(), error)
}
