//! The clients of a sender. You can add and remove clients while it sends.

use crate::error::Error;
use crate::net::ports::port_of_stream;
use crate::net::session::{Rtcp, RtpSession};
use crate::net::udp::Clients;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

/// The clients of all streams. A client is identified by its first address. It receives stream n on
/// port + n, or on port + 2 n if reports have a port of their own. If the port is shared, it
/// receives all streams on one port. For example, stream 2 of the client 10.0.0.1:5004 goes to
/// 10.0.0.1:5006.
#[derive(Debug)]
pub struct ClientRegistry {
    streams: Vec<Clients>,
    shared_port: bool,
    /// The number of ports from one stream to the next.
    step: usize,
    /// The addresses on which the relay itself receives. We reject them as clients, because their
    /// packets would come back.
    own: Vec<SocketAddr>,
}

/// A command to a running sender or relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// List the clients of stream 0.
    List,
    /// Start sending to this client.
    Add(SocketAddr),
    /// Stop sending to this client.
    Remove(SocketAddr),
    /// Remove all clients.
    Clear,
}

impl ClientRegistry {
    /// Creates a registry without clients for `streams` streams. If `shared_port` is set, all
    /// streams go to the same port of a client.
    pub fn new(streams: usize, shared_port: bool, rtcp: Rtcp) -> Self {
        ClientRegistry {
            streams: (0..streams).map(|_| Clients::default()).collect(),
            shared_port,
            step: 1 + usize::from(rtcp == Rtcp::Own),
            own: Vec::new(),
        }
    }

    /// Makes [`add`](Self::add) reject clients at our own addresses.
    pub(crate) fn exclude(&mut self, own: Vec<SocketAddr>) {
        self.own = own;
    }

    /// Returns whether a packet to this address would arrive at one of our own sockets.
    fn is_own_address(&self, address: SocketAddr) -> bool {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        // An address that we can bind belongs to this machine. Packets to the unspecified address
        // arrive at this machine as well.
        let is_local = || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok();
        self.own.iter().any(|own| {
            let own_ip = own.ip().to_canonical();
            own.port() == port && (own_ip == ip || own_ip.is_unspecified() && is_local())
        })
    }

    /// Adds the address of each session as a client of its stream.
    pub(crate) fn add_sessions(&self, sessions: &[RtpSession]) {
        for (clients, session) in self.streams.iter().zip(sessions) {
            clients.add(session.address);
        }
    }

    /// Returns the clients of a stream. The list is shared, so later changes of the registry apply
    /// to it.
    pub fn of_stream(&self, stream: usize) -> Clients {
        self.streams[stream].clone()
    }

    /// Returns the first address of each client. IPv4 addresses come before IPv6 addresses. Within
    /// a family, the clients are in the order in which they were added.
    pub fn list(&self) -> Vec<SocketAddr> {
        self.streams.first().map(Clients::list).unwrap_or_default()
    }

    /// Adds a client. Returns false if the client was there already.
    ///
    /// # Errors
    ///
    /// Returns an error if a port of the client is zero, exceeds 65,535, or is our own. In this
    /// case the client is added to no stream.
    pub fn add(&self, client: SocketAddr) -> Result<bool, Error> {
        if client.port() == 0 {
            return Err(Error::Plan(format!(
                "cannot add the client {client}: its port must not be 0"
            )));
        }
        let addresses = self.addresses(client)?;
        if let Some(own) = addresses
            .iter()
            .find(|&&address| self.is_own_address(address))
        {
            return Err(Error::Plan(format!(
                "cannot add the client {client}: {own} is a port of this program, so the packets \
                 would come back"
            )));
        }
        let mut is_new = false;
        for (clients, address) in self.streams.iter().zip(addresses) {
            is_new |= clients.add(address);
        }
        Ok(is_new)
    }

    /// Removes a client. Returns false if there was no such client.
    pub fn remove(&self, client: SocketAddr) -> bool {
        let addresses = self.addresses(client).unwrap_or_default();
        let mut was_there = false;
        for (clients, address) in self.streams.iter().zip(addresses) {
            was_there |= clients.remove(address);
        }
        was_there
    }

    /// Removes all clients.
    pub fn clear(&self) {
        self.streams.iter().for_each(Clients::clear);
    }

    /// Executes a command and returns a reply of one line.
    pub fn execute(&self, command: Command) -> String {
        match command {
            Command::List => {
                let clients: Vec<_> = self.list().iter().map(SocketAddr::to_string).collect();
                let plural = if clients.len() == 1 { "" } else { "s" };
                format!("{} client{plural}: {}", clients.len(), clients.join(" "))
            }
            Command::Add(client) => match self.add(client) {
                Ok(true) => format!("added {client}"),
                Ok(false) => format!("{client} is a client already"),
                Err(error) => error.to_string(),
            },
            Command::Remove(client) if self.remove(client) => format!("removed {client}"),
            Command::Remove(client) => format!("{client} is not a client"),
            Command::Clear => {
                self.clear();
                "cleared".into()
            }
        }
    }

    /// Returns the address of each stream for this client.
    pub(crate) fn addresses(&self, client: SocketAddr) -> Result<Vec<SocketAddr>, Error> {
        (0..self.streams.len())
            .map(|stream| port_of_stream(client, stream, stream * self.step, self.shared_port))
            .collect()
    }
}

impl FromStr for Command {
    type Err = String;

    /// Parses `list`, `add HOST:PORT`, `remove HOST:PORT` or `clear`. The function blocks while it
    /// looks up a host name.
    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let resolve = |text: &str| {
            let mut found = text
                .to_socket_addrs()
                .map_err(|e| format!("cannot resolve {text}: {e}"))?;
            found
                .next()
                .ok_or_else(|| format!("cannot resolve {text}: the host has no address"))
        };
        match words[..] {
            ["list"] => Ok(Command::List),
            ["add", client] => resolve(client).map(Command::Add),
            ["remove", client] => resolve(client).map(Command::Remove),
            ["clear"] => Ok(Command::Clear),
            _ => Err(format!(
                "unknown command `{}`: expected list, add HOST:PORT, remove HOST:PORT or clear",
                line.trim()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_each_stream_on_its_own_port() {
        for (shared, last) in [(false, "127.0.0.1:5006"), (true, "127.0.0.1:5004")] {
            let registry = ClientRegistry::new(3, shared, Rtcp::Off);
            let execute = |line: &str| registry.execute(line.parse().unwrap());
            assert_eq!(execute("add 127.0.0.1:5004"), "added 127.0.0.1:5004");
            assert!(execute("add 127.0.0.1:5004").ends_with("already"));
            assert_eq!(registry.of_stream(2).list(), [last.parse().unwrap()]);
            assert_eq!(execute(" list "), "1 client: 127.0.0.1:5004");
            assert_eq!(execute("remove 127.0.0.1:5004"), "removed 127.0.0.1:5004");
            assert!(execute("remove 127.0.0.1:5004").ends_with("is not a client"));
            assert!(registry.of_stream(2).list().is_empty());
            execute("add 127.0.0.1:9");
            assert_eq!(execute("clear"), "cleared");
            assert!(registry.list().is_empty());
        }
    }

    #[test]
    fn a_client_without_enough_ports_is_not_added() {
        let registry = ClientRegistry::new(3, false, Rtcp::Off);
        let reply = registry.execute(Command::Add(([127, 0, 0, 1], 65_534).into()));
        assert!(reply.contains("--shared-port"), "{reply}");
        assert!(registry.list().is_empty());
    }

    #[test]
    fn own_addresses_and_port_zero_are_rejected() {
        let mut registry = ClientRegistry::new(2, false, Rtcp::Off);
        let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
        registry.exclude(vec![any(5_004), any(5_005)]);
        for client in [
            "127.0.0.1:0",
            "127.0.0.1:5004",
            "127.0.0.1:5005",
            "127.0.0.1:5003",
        ] {
            let reply = registry.execute(Command::Add(client.parse().unwrap()));
            assert!(reply.contains("port"), "{reply}");
        }
        assert!(registry.list().is_empty());
        // The same port of another machine is not our own.
        assert!(registry.add("192.0.2.77:5004".parse().unwrap()).unwrap());
        registry.exclude(vec!["127.0.0.2:5004".parse().unwrap()]);
        assert!(registry.add("127.0.0.1:5004".parse().unwrap()).unwrap());
    }

    #[test]
    fn invalid_commands_for_the_client_list_are_rejected() {
        for line in ["", "add", "add nowhere", "list all", "quit"] {
            assert!(line.parse::<Command>().is_err(), "{line}");
        }
    }
}
