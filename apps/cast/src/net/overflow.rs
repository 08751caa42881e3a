//! Counts the packets that this machine dropped because a socket's buffer was full.
//!
//! A receiver cannot distinguish them from packets that the network lost. The kernel, however,
//! counts them per socket and shows the counts in tables. We read the tables at the end of a run.
//! On a system without these tables we report nothing.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// The kernel's tables of the UDP sockets of this process, for IPv4 and IPv6.
const TABLES: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];
/// The columns of the inode and of the drops in a line of a table, counted from zero.
const INODE: usize = 9;
const DROPS: usize = 12;

/// The sockets whose drops we count. They must be open when [`dropped`](Self::dropped) is called.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    inodes: HashSet<u64>,
}

impl Overflow {
    /// Adds a socket.
    pub(crate) fn watch(&mut self, socket: BorrowedFd<'_>) {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let inode = std::fs::metadata(path).map(|data| data.ino());
        self.inodes.extend(inode.ok());
    }

    /// Returns the number of datagrams that were dropped at these sockets. This function blocks
    /// while it reads the tables.
    pub(crate) fn dropped(&self) -> u64 {
        let tables = TABLES.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let sums = tables.iter().map(|table| self.dropped_in(table));
        sums.sum()
    }

    fn dropped_in(&self, table: &str) -> u64 {
        let lines = table.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let inode = words.get(INODE)?.parse().ok()?;
            let drops: u64 = words.get(DROPS)?.parse().ok()?;
            self.inodes.contains(&inode).then_some(drops)
        });
        lines.sum()
    }
}

/// Returns a warning about dropped packets, if there were any.
pub(crate) fn warning(dropped: u64) -> Option<String> {
    (dropped > 0).then(|| {
        format!("this machine dropped {dropped} packets, because they arrived faster than we read them. The network did not lose them. Raise net.core.rmem_max, or use a shorter --wait")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn datagrams_dropped_by_a_full_socket_are_counted() {
        let full = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut overflow = Overflow::default();
        overflow.watch(full.as_fd());
        if !std::path::Path::new(TABLES[0]).exists() {
            eprintln!("skipped, because there is no {}", TABLES[0]);
            return;
        }
        assert_eq!(overflow.dropped(), 0);
        let size = socket2::SockRef::from(&full)
            .recv_buffer_size()
            .unwrap_or(1 << 20);
        let datagram = [0; 1_024];
        let sent = size / 512;
        for _ in 0..sent {
            other
                .send_to(&datagram, full.local_addr().unwrap())
                .unwrap();
        }
        let dropped = overflow.dropped();
        full.set_nonblocking(true).unwrap();
        let mut bytes = [0; 2_048];
        let taken = std::iter::from_fn(|| full.recv(&mut bytes).ok()).count();
        assert_eq!((dropped > 0, dropped + taken as u64), (true, sent as u64));
        overflow = Overflow::default();
        overflow.watch(other.as_fd());
        assert_eq!(overflow.dropped(), 0);
    }
}
