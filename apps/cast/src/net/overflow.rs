//! Counts the packets that this machine dropped because a socket's buffer was full.
//!
//! A receiver cannot distinguish them from packets that the network lost. Linux, however, counts
//! them per socket and shows the counts in tables. We read the tables at the end of a run. Other
//! systems count these packets for the whole machine only, so we return `None` there.

use creel::net::UdpSocket;
use std::collections::HashSet;

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
    pub(crate) fn watch(&mut self, socket: &UdpSocket) {
        self.inodes.extend(inode(socket.as_std()));
    }

    /// Returns the number of datagrams that were dropped at these sockets, or `None` if the system
    /// does not count them. This function blocks while it reads the tables.
    pub(crate) fn dropped(&self) -> Option<u64> {
        let tables = TABLES.map(|path| std::fs::read_to_string(path).ok());
        let tables = tables.iter().flatten();
        let sums = tables.map(|table| self.dropped_in(table));
        sums.reduce(|a, b| a + b)
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

/// Returns the number by which the tables identify a socket.
#[cfg(target_os = "linux")]
fn inode(socket: &std::net::UdpSocket) -> Option<u64> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    std::fs::metadata(path).map(|data| data.ino()).ok()
}

/// Returns `None`, because there are no tables.
#[cfg(not(target_os = "linux"))]
fn inode(_: &std::net::UdpSocket) -> Option<u64> {
    None
}

/// Returns a warning about dropped packets, if there were any.
pub(crate) fn warning(dropped: Option<u64>) -> Option<String> {
    let dropped = dropped.filter(|dropped| *dropped > 0)?;
    Some(format!(
        "this machine dropped {dropped} packets, because they arrived faster than we read them. The network did not lose them. Raise net.core.rmem_max (sysctl), or use a shorter --wait"
    ))
}

/// Returns a note if the system does not count dropped packets. No other system than Linux reports
/// the times of arrival either.
pub(crate) fn note(dropped: Option<u64>) -> Option<String> {
    let note = "not counted here: packets that this machine dropped, because the system does not count them per socket. They are counted as lost. The jitter includes the time until we read a packet, because the system does not state when a packet arrived";
    dropped.is_none().then(|| note.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_dropped_by_a_full_socket_are_counted() {
        let bind = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let full = UdpSocket::from_std(bind()).unwrap();
        let unused = UdpSocket::from_std(bind()).unwrap();
        let (full_std, sender) = (full.as_std(), bind());
        let mut overflow = Overflow::default();
        overflow.watch(&full);
        if !std::path::Path::new(TABLES[0]).exists() {
            eprintln!("skipped, because there is no {}", TABLES[0]);
            assert_eq!(overflow.dropped(), None);
            return;
        }
        assert_eq!(overflow.dropped(), Some(0));
        let size = socket2::SockRef::from(full_std)
            .recv_buffer_size()
            .unwrap_or(1 << 20);
        let datagram = [0; 1_024];
        let sent = size / 512;
        for _ in 0..sent {
            sender
                .send_to(&datagram, full_std.local_addr().unwrap())
                .unwrap();
        }
        let dropped = overflow.dropped().unwrap();
        full_std.set_nonblocking(true).unwrap();
        let mut bytes = [0; 2_048];
        let taken = std::iter::from_fn(|| full_std.recv(&mut bytes).ok()).count();
        assert_eq!((dropped > 0, dropped + taken as u64), (true, sent as u64));
        overflow = Overflow::default();
        overflow.watch(&unused);
        assert_eq!(overflow.dropped(), Some(0));
    }

    #[test]
    fn drops_that_are_not_counted_give_a_note_and_no_warning() {
        assert_eq!(
            (warning(None), note(Some(0)), warning(Some(0))),
            (None, None, None)
        );
        assert!(note(None).is_some_and(|note| note.contains("not counted here")));
        assert!(warning(Some(3)).is_some());
    }
}
