//! What this machine has dropped itself, because a socket's buffer was full.
//!
//! To a receiver it looks like the network's loss. The kernel counts it by socket and tells it in
//! tables, which are read when a run is over; where there are none, nothing is told.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// The kernel's tables of this process's UDP sockets, of both families.
const TABLES: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];
/// Where a table's lines have the inode and the drops, counted from zero.
const INODE: usize = 9;
const DROPS: usize = 12;

/// Sockets whose drops are asked for while they are open.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    inodes: HashSet<u64>,
}

impl Overflow {
    /// Watches a socket, too.
    pub(crate) fn watch(&mut self, socket: BorrowedFd<'_>) {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let inode = std::fs::metadata(path).map(|data| data.ino());
        self.inodes.extend(inode.ok());
    }

    /// Datagrams that came to them and were dropped. Blocks while the tables are read.
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

/// What is said of them, if there were any.
pub(crate) fn warning(dropped: u64) -> Option<String> {
    (dropped > 0).then(|| {
        format!("{dropped} packets came faster than they were taken: this machine dropped them, not the network")
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
            eprintln!("skipped: no {}", TABLES[0]);
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
