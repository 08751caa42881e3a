//! Opening and configuring UDP sockets.

use gio::prelude::*;
use rustix::net::sockopt;
use socket2::{Domain, InterfaceIndexOrAddress, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Returns the IP address of a host. If `host` is a name and not an address, looks it up, which
/// blocks.
pub(crate) fn resolve(host: &str) -> io::Result<IpAddr> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let mut found = (host, 0).to_socket_addrs()?;
    found
        .next()
        .map(|address| address.ip())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
}

/// Creates a socket that is bound to `address`. With `reuse`, other sockets may bind it too.
pub(crate) fn bind(address: SocketAddr, reuse: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    let share = || {
        socket.set_reuse_address(reuse)?;
        #[cfg(unix)]
        socket.set_reuse_port(reuse)?;
        io::Result::Ok(())
    };
    // With the option set, Linux may choose the port of another socket that has the option too.
    // Therefore we set it later if the system chooses the port.
    if address.port() == 0 {
        socket.bind(&address.into())?;
        share()?;
    } else {
        share()?;
        socket.bind(&address.into())?;
    }
    Ok(socket.into())
}

/// A network interface on which a group is joined.
#[derive(Clone, Copy)]
enum Interface {
    Index(u32),
    Address(Ipv4Addr),
}

impl Interface {
    fn v4(self) -> InterfaceIndexOrAddress {
        match self {
            Interface::Index(index) => InterfaceIndexOrAddress::Index(index),
            Interface::Address(address) => InterfaceIndexOrAddress::Address(address),
        }
    }

    fn v6(self) -> io::Result<u32> {
        match self {
            Interface::Index(index) => Ok(index),
            Interface::Address(_) => Err(unsupported("an IPv6 group needs an interface's name")),
        }
    }

    fn address(self) -> io::Result<Ipv4Addr> {
        match self {
            Interface::Address(address) => Ok(address),
            Interface::Index(0) => Ok(Ipv4Addr::UNSPECIFIED),
            Interface::Index(_) => Err(unsupported(
                "a group is joined for one source on an interface's address, not on its name",
            )),
        }
    }
}

fn unsupported(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// Returns the interfaces of a list of names and addresses, or the system's choice for an empty
/// list.
fn interfaces(socket: &UdpSocket, list: &str) -> io::Result<Vec<Interface>> {
    if list.trim().is_empty() {
        return Ok(vec![Interface::Index(0)]);
    }
    let of = |name: &str| match name.parse() {
        Ok(address) => Ok(Interface::Address(address)),
        Err(_) => interface_index(socket.as_fd(), name).map(Interface::Index),
    };
    list.split(',').map(str::trim).map(of).collect()
}

/// Returns the index of an interface by its name. The system requires any socket for this.
fn interface_index(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    #[cfg(target_os = "linux")]
    let index = rustix::net::netdevice::name_to_index(socket, name);
    #[cfg(not(target_os = "linux"))]
    let index = {
        let _ = socket;
        Err("use its address, because names are supported on Linux only")
    };
    index.map_err(|error| {
        let text = format!("no interface `{name}`: {error}");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Joins a multicast group on the given interfaces, for the datagrams of one source if `only_from`
/// names one.
pub(crate) fn join(
    socket: &UdpSocket,
    group: IpAddr,
    only_from: Option<IpAddr>,
    list: &str,
) -> io::Result<()> {
    let options = SockRef::from(socket);
    for interface in interfaces(socket, list)? {
        match (group, only_from) {
            (IpAddr::V4(group), None) => options.join_multicast_v4_n(&group, &interface.v4())?,
            (IpAddr::V6(group), None) => options.join_multicast_v6(&group, interface.v6()?)?,
            (IpAddr::V4(group), Some(IpAddr::V4(source))) => {
                options.join_ssm_v4(&source, &group, &interface.address()?)?;
            }
            _ => {
                return Err(unsupported(
                    "a group is joined for one source with IPv4 only",
                ));
            }
        }
    }
    Ok(())
}

/// Leaves a multicast group that [`join`] joined.
pub(crate) fn leave(socket: &UdpSocket, group: IpAddr, list: &str) -> io::Result<()> {
    let options = SockRef::from(socket);
    for interface in interfaces(socket, list)? {
        match group {
            IpAddr::V4(group) => options.leave_multicast_v4_n(&group, &interface.v4())?,
            IpAddr::V6(group) => options.leave_multicast_v6(&group, interface.v6()?)?,
        }
    }
    Ok(())
}

/// Makes the socket send multicast datagrams through an interface.
pub(crate) fn send_through(socket: &UdpSocket, v6: bool, list: &str) -> io::Result<()> {
    let options = SockRef::from(socket);
    for interface in interfaces(socket, list)?.into_iter().take(1) {
        match (v6, interface) {
            (_, Interface::Index(0)) => {}
            (true, interface) => options.set_multicast_if_v6(interface.v6()?)?,
            (false, Interface::Address(address)) => options.set_multicast_if_v4(&address)?,
            (false, Interface::Index(index)) => {
                let any = Ipv4Addr::UNSPECIFIED;
                sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)?;
            }
        }
    }
    Ok(())
}

/// A socket that the program has set. It is a duplicate, or the reason why it cannot be used.
pub(crate) type Given = Result<OwnedFd, &'static str>;

/// Returns a duplicate of a socket of GLib's type.
pub(crate) fn from_gio(socket: &gio::Socket) -> Given {
    if socket.is_closed() {
        return Err("the socket that was set is closed");
    }
    if socket.socket_type() != gio::SocketType::Datagram {
        return Err("the socket that was set is not for datagrams");
    }
    let copy = socket.as_fd().try_clone_to_owned();
    copy.map_err(|_| "the socket that was set cannot be duplicated")
}

/// Opens the socket that the program has set.
pub(crate) fn open_given(given: &Given) -> io::Result<UdpSocket> {
    match given {
        Ok(socket) => Ok(UdpSocket::from(socket.try_clone()?)),
        Err(reason) => Err(io::Error::new(io::ErrorKind::InvalidInput, *reason)),
    }
}

/// Returns a duplicate of a socket as GLib's type.
pub(crate) fn to_gio(socket: Option<BorrowedFd<'_>>) -> Option<gio::Socket> {
    let copy: OwnedFd = socket?.try_clone_to_owned().ok()?;
    gio::Socket::from_fd(copy).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sockets_that_ask_for_any_port_do_not_share_one() {
        // With 28,000 ports to choose from, 600 random ports are all different in one of 600 runs.
        let any = "127.0.0.1:0".parse().unwrap();
        let sockets: Vec<_> = (0..600).map(|_| bind(any, true).unwrap()).collect();
        let ports = sockets.iter().map(|socket| socket.local_addr().unwrap());
        assert_eq!(ports.collect::<HashSet<_>>().len(), sockets.len());
        bind(sockets[0].local_addr().unwrap(), true).expect("sockets share a port on request");
    }
}
