//! Batches on Linux: `sendmmsg` and `recvmmsg`, with splitting (GSO) and merging (GRO) of datagrams
//! in the kernel.
//!
//! The message headers are on the stack during one call. We initialize only as many as the call
//! needs, and we pass exactly that number to the system. Each header points to memory of a slice
//! whose bounds were checked, and never to an address or a length that we computed ourselves.
//!
//! Consecutive datagrams become one message, which the kernel splits, if they are adjacent in
//! memory, have the same destination, and have the same length, except that the last one may be
//! shorter. The number of datagrams and bytes in a message is limited, and an empty datagram is a
//! message of its own.
//!
//! Source: Linux manual pages sendmmsg(2), recvmmsg(2), udp(7).

use super::batch::{CALL_MAX, Outgoing, Piece, Received, Slot};
use super::io::Left;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The maximum number of datagrams into which the kernel splits one message. Source: udp(7),
/// UDP_MAX_SEGMENTS.
const SEGMENTS_MAX: usize = 64;
/// The maximum number of bytes in a message, without its headers. With its headers, a message of
/// this size still fits into the 65,535 bytes of an IP packet.
const MESSAGE_BYTES_MAX: usize = 65_000;

/// Space for one control message with one integer, aligned like a `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Space for all control messages that the kernel may add to a received message: the segment length
/// (24 bytes), the time of arrival (32 bytes) and the drop count (24 bytes). It is aligned like a
/// `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ReceiveControl([u8; 96]);

/// The information in the control messages of a received message.
#[derive(Default)]
struct Info {
    /// The length of the datagrams that the kernel merged, or 0 if it did not merge any.
    segment: usize,
    arrived: Option<SystemTime>,
    dropped: u32,
}

/// A run of datagrams that form one message.
struct Run {
    datagrams: usize,
    bytes: usize,
    /// The length of all datagrams except the last one, if there are several.
    segment: Option<u16>,
}

fn run(pieces: &[Piece], split: bool) -> Run {
    let first = &pieces[0];
    let segment = first.range.len();
    let mut run = Run {
        datagrams: 1,
        bytes: segment,
        segment: None,
    };
    if !split || segment == 0 {
        return run;
    }
    for pair in pieces.windows(2).take(SEGMENTS_MAX - 1) {
        let (last, next) = (&pair[0], &pair[1]);
        let adjoins = last.range.end == next.range.start && last.range.len() == segment;
        let fits = next.range.len() <= segment && !next.range.is_empty();
        if !adjoins
            || !fits
            || next.to != first.to
            || run.bytes + next.range.len() > MESSAGE_BYTES_MAX
        {
            break;
        }
        run.datagrams += 1;
        run.bytes += next.range.len();
    }
    if run.datagrams > 1 {
        run.segment = u16::try_from(segment).ok();
    }
    run
}

/// Sends as many datagrams of `outgoing` as possible in one call, and returns their number. If
/// `split` is set, the kernel may split messages.
pub(super) fn send(socket: &UdpSocket, outgoing: &Outgoing, split: bool) -> io::Result<usize> {
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; CALL_MAX];
    let mut names = [const { MaybeUninit::<libc::sockaddr_in6>::uninit() }; CALL_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; CALL_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; CALL_MAX];
    let mut datagrams = [0_u8; CALL_MAX];
    let mut rest = &outgoing.datagrams[outgoing.done..];
    let mut count = 0;
    while count < CALL_MAX && !rest.is_empty() {
        let run = run(rest, split);
        let piece = &rest[0];
        let bytes = &outgoing.bytes[piece.range.start..][..run.bytes];
        let part = parts[count].write(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
        let header = headers[count].write(empty_header());
        header.msg_hdr.msg_namelen = name_of(piece.to, &mut names[count]);
        header.msg_hdr.msg_name = names[count].as_mut_ptr().cast();
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        if let Some(segment) = run.segment {
            let control = controls[count].write(Control([0; 32]));
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            // The type of this field differs between C libraries.
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            ask_to_split(&mut header.msg_hdr, segment);
        }
        datagrams[count] = run.datagrams as u8;
        rest = &rest[run.datagrams..];
        count += 1;
    }
    let headers = headers.as_mut_ptr().cast();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: validity: the first `count` headers are initialized, because `count` counts those
    // that were written (each index was checked against the arrays). They point to elements of
    // `parts`, `names` and `controls` that were written at the same index, and each part points to
    // a slice of `outgoing.bytes`. All of these are alive and have not moved. Aliasing: no
    // reference to an element of the arrays is used after its address was taken. The call writes
    // only to the headers, which are borrowed mutably, and reads the rest.
    let sent = unsafe { send_all(socket.as_raw_fd(), headers, count as u32, flags) };
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
    Ok(datagrams[..sent].iter().map(|&n| usize::from(n)).sum())
}

/// Makes the system call by its number. We do not use the `sendmmsg` of musl, because it sends the
/// messages one by one. It does so because its length fields are shorter than those of the kernel
/// and have padding behind them. Our padding is zero, so the kernel reads the same numbers.
///
/// # Safety
/// `headers` points to `count` initialized headers, whose pointers and lengths are valid.
#[cfg(all(target_env = "musl", target_pointer_width = "64"))]
unsafe fn send_all(
    socket: libc::c_int,
    headers: *mut libc::mmsghdr,
    count: u32,
    flags: libc::c_int,
) -> libc::c_long {
    // SAFETY: the caller guarantees that the headers are valid. Aliasing: the kernel writes only to
    // the headers, which the caller has borrowed mutably.
    unsafe { libc::syscall(libc::SYS_sendmmsg, socket, headers, count, flags) }
}

/// Makes the system call through the C library.
///
/// # Safety
/// `headers` points to `count` initialized headers, whose pointers and lengths are valid.
#[cfg(not(all(target_env = "musl", target_pointer_width = "64")))]
unsafe fn send_all(
    socket: libc::c_int,
    headers: *mut libc::mmsghdr,
    count: u32,
    flags: libc::c_int,
) -> libc::c_int {
    // SAFETY: the caller guarantees that the headers are valid. Aliasing: the call writes only to
    // the headers, which the caller has borrowed mutably.
    unsafe { libc::sendmmsg(socket, headers, count, flags as _) }
}

/// Fills the slots of `received` with the datagrams that have arrived. If it fills fewer than all
/// slots, there are no more datagrams.
pub(super) fn receive(socket: &UdpSocket, received: &mut Received) -> io::Result<Left> {
    match received.slots.len() {
        1 => {
            receive_one(socket, received)?;
            // If there is only one slot, a full slot does not show whether there are more
            // datagrams.
            Ok(Left::Unknown)
        }
        slots => {
            receive_many(socket, received)?;
            match received.filled < slots {
                true => Ok(Left::Nothing),
                false => Ok(Left::More),
            }
        }
    }
}

/// Receives one datagram from any sender. Bytes that do not fit into `bytes` are lost.
pub(super) fn recv_from(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    socket.recv_from(bytes)
}

/// Receives one datagram. Bytes that do not fit into `bytes` are lost.
pub(super) fn recv(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<usize> {
    socket.recv(bytes)
}

/// Fills the only slot of `received`. A call for a single message is faster, and its stack frame is
/// much smaller.
fn receive_one(socket: &UdpSocket, received: &mut Received) -> io::Result<()> {
    let mut name = MaybeUninit::<libc::sockaddr_in6>::uninit();
    let mut control = MaybeUninit::<ReceiveControl>::uninit();
    let mut part = libc::iovec {
        iov_base: received.bytes.as_mut_ptr().cast(),
        iov_len: received.bytes.len(),
    };
    let mut header = empty_header();
    let message = &mut header.msg_hdr;
    if received.addresses {
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
    }
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // The type of this field differs between C libraries.
    message.msg_controllen = size_of::<ReceiveControl>() as _;
    received.filled = 0;
    // SAFETY: validity: the header points to `name`, `control` and `part`, and the part points to
    // `received.bytes` and has its length. All of these are alive and have not moved, and any bytes
    // that are written there form a valid value. Aliasing: no reference to any of them is used
    // between this point and the return of the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_DONTWAIT) };
    header.msg_len = u32::try_from(len).map_err(|_| io::Error::last_os_error())?;
    received.slots[0] = slot(&header, received.room);
    received.filled = 1;
    Ok(())
}

fn receive_many(socket: &UdpSocket, received: &mut Received) -> io::Result<()> {
    received.filled = 0;
    let memory = received.bytes.chunks_exact_mut(received.room);
    received.filled = receive_into(
        socket,
        memory,
        received.addresses,
        received.slots.iter_mut(),
    )?;
    Ok(())
}

/// Receives the datagrams that have arrived, one into each element of `memory`, and describes them
/// in the slots with the same index. Returns their number, and whether there may be more.
pub(super) fn receive_pieces<'a>(
    socket: &UdpSocket,
    memory: impl Iterator<Item = &'a mut [u8]>,
    addresses: bool,
    slots: impl ExactSizeIterator<Item = &'a mut Slot>,
) -> io::Result<(usize, Left)> {
    let room = slots.len();
    let filled = receive_into(socket, memory, addresses, slots)?;
    let left = match room {
        // If there is only one slot, a full slot does not show whether there are more datagrams.
        1 => Left::Unknown,
        room if filled < room => Left::Nothing,
        _ => Left::More,
    };
    Ok((filled, left))
}

/// Receives the datagrams that have arrived, one into each element of `memory`, describes them in
/// the slots with the same index, and returns their number. There must be as many slots as
/// elements, and at most [`CALL_MAX`]. If the number is lower than that of the elements, there were
/// no more datagrams, or an error has ended the call.
fn receive_into<'a>(
    socket: &UdpSocket,
    memory: impl Iterator<Item = &'a mut [u8]>,
    addresses: bool,
    slots: impl ExactSizeIterator<Item = &'a mut Slot>,
) -> io::Result<usize> {
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; CALL_MAX];
    let mut names = [const { MaybeUninit::<libc::sockaddr_in6>::uninit() }; CALL_MAX];
    let mut controls = [const { MaybeUninit::<ReceiveControl>::uninit() }; CALL_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; CALL_MAX];
    let mut filled = 0;
    for (i, bytes) in memory.enumerate() {
        let part = parts[i].write(libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        });
        let header = headers[i].write(empty_header());
        if addresses {
            header.msg_hdr.msg_name = names[i].as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
        }
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = controls[i].as_mut_ptr().cast();
        // The type of this field differs between C libraries.
        header.msg_hdr.msg_controllen = size_of::<ReceiveControl>() as _;
        filled += 1;
    }
    let slots_len = slots.len();
    assert_eq!(filled, slots_len, "each slot has its piece");
    // SAFETY: validity: the first `filled` headers are initialized, because `filled` counts those
    // that were written (each index was checked against the arrays). They point to elements of
    // `parts`, `names` and `controls` with the same index, and each part points to an element of
    // `memory` and has its length. All of these are alive and have not moved, because `memory` is
    // borrowed for longer than this call. Any bytes that are written there form a valid value.
    // Aliasing: the elements of `memory` are disjoint and borrowed mutably, like the arrays. No
    // reference to any of them is used between this point and the return of the call.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            filled as u32,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    assert!(count <= slots_len, "more than it was given");
    for ((slot, header), part) in slots.zip(&headers[..count]).zip(&parts) {
        // SAFETY: validity: this is one of the `filled` headers that were initialized, and the call
        // has only changed integers in it. Aliasing: the call has returned, so no one writes to the
        // header any more.
        let header = unsafe { header.assume_init_ref() };
        // SAFETY: validity: this part has the index of the header, so that it was initialized.
        // Aliasing: the call has returned, so no one uses the pointers to it any more.
        let part = unsafe { part.assume_init_ref() };
        *slot = self::slot(header, part.iov_len);
    }
    Ok(count)
}

/// Returns the slot of a message that the kernel has received. The pointers of the header must be
/// those that [`receive_one`] or [`receive_into`] has set.
fn slot(header: &libc::mmsghdr, room: usize) -> Slot {
    let info = info(&header.msg_hdr);
    Slot {
        len: (header.msg_len as usize).min(room),
        segment: info.segment,
        arrived: info.arrived,
        dropped: info.dropped,
        from: address(&header.msg_hdr).unwrap_or(Slot::EMPTY.from),
        truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: validity: the header consists of integers and raw pointers, for which zero is valid.
    // It means no name and no parts. Aliasing: this is a value, so there is nothing to alias.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Requests that the kernel splits a message into datagrams of `segment` bytes. The control buffer
/// of the header must be a zeroed [`Control`] of the caller, to which no other reference exists.
fn ask_to_split(header: &mut libc::msghdr, segment: u16) {
    // SAFETY: validity: this reads the header, whose control buffer is alive and larger than a
    // `cmsghdr`. Aliasing: the header is borrowed mutably.
    let control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: this computes a length and does not access memory.
    let len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) };
    // SAFETY: this computes a length and does not access memory.
    let space = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) };
    assert!(space as usize <= size_of::<Control>(), "it has its room");
    // SAFETY: validity: the pointer is not null, because the buffer is large enough. It is aligned
    // like `Control`, and the memory is zeroed, so it is a valid `cmsghdr`. Aliasing: the buffer
    // belongs to the caller alone, and we do not use this reference after `CMSG_DATA` below.
    let cmsg = unsafe { &mut *control };
    cmsg.cmsg_level = libc::SOL_UDP;
    cmsg.cmsg_type = libc::UDP_SEGMENT;
    cmsg.cmsg_len = len as _;
    // SAFETY: this computes the address after the header, which is within the buffer.
    let data = unsafe { libc::CMSG_DATA(control) };
    // SAFETY: validity: the buffer has `space` bytes, which include this integer. The write does
    // not assume an alignment. Aliasing: the buffer belongs to the caller alone.
    unsafe { data.cast::<u16>().write_unaligned(segment) };
    header.msg_controllen = space as _;
}

/// Returns the information in the control messages of a received message.
///
/// The control buffer of the header must be a [`ReceiveControl`] of the caller, of which the kernel
/// has written as many bytes as the control length says.
fn info(header: &libc::msghdr) -> Info {
    let mut info = Info::default();
    // SAFETY: validity: this reads only the header. It returns null unless the kernel has written a
    // complete `cmsghdr`.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: validity: the pointer is not null, so it points to a `cmsghdr` that the kernel
        // has written, aligned like `ReceiveControl`. Aliasing: this makes a copy, and no one
        // writes to the buffer any more.
        let cmsg = unsafe { control.read() };
        let integer = size_of::<libc::c_int>();
        match (cmsg.cmsg_level, cmsg.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) if has_data(&cmsg, integer) => {
                // SAFETY: this computes the address after the header, which is within the buffer.
                let data = unsafe { libc::CMSG_DATA(control) };
                // SAFETY: validity: according to the length, the kernel has written this integer.
                // The read does not assume an alignment. Aliasing: this makes a copy, as above.
                let segment = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                info.segment = usize::try_from(segment).unwrap_or(0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if has_data(&cmsg, integer) => {
                // SAFETY: this computes the address after the header, which is within the buffer.
                let data = unsafe { libc::CMSG_DATA(control) };
                // SAFETY: validity: according to the length, the kernel has written this integer.
                // The read does not assume an alignment. Aliasing: this makes a copy, as above.
                info.dropped = unsafe { data.cast::<u32>().read_unaligned() };
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                if has_data(&cmsg, size_of::<libc::timespec>()) =>
            {
                // SAFETY: this computes the address after the header, which is within the buffer.
                let data = unsafe { libc::CMSG_DATA(control) };
                // SAFETY: validity: according to the length, the kernel has written this time,
                // which consists of integers. The read does not assume an alignment. Aliasing: this
                // makes a copy, as above.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                info.arrived = system_time(time);
            }
            _ => {}
        }
        // SAFETY: validity: this reads the header and the `cmsghdr`, both of which are alive. It
        // returns null unless there is another complete `cmsghdr` within the control length.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    info
}

/// Returns whether a control message has at least `bytes` bytes of data.
fn has_data(cmsg: &libc::cmsghdr, bytes: usize) -> bool {
    // SAFETY: this computes a length and does not access memory.
    let whole = unsafe { libc::CMSG_LEN(bytes as u32) } as usize;
    // The type of this field differs between C libraries.
    let len: usize = cmsg.cmsg_len as _;
    len >= whole
}

/// Returns `None` for a time before 1970, which no clock shows in practice.
fn system_time(time: libc::timespec) -> Option<SystemTime> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

/// Writes an address in the format of the system and returns its length.
fn name_of(to: SocketAddr, name: &mut MaybeUninit<libc::sockaddr_in6>) -> libc::socklen_t {
    match to {
        SocketAddr::V4(to) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(to.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: validity: a `sockaddr_in6` is larger than a `sockaddr_in` and has at least
            // its alignment. Aliasing: the memory is borrowed mutably.
            unsafe { name.as_mut_ptr().cast::<libc::sockaddr_in>().write(v4) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(to) => {
            name.write(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: to.flowinfo().to_be(),
                sin6_addr: libc::in6_addr {
                    s6_addr: to.ip().octets(),
                },
                sin6_scope_id: to.scope_id(),
            });
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

/// Returns the address of the sender, if it is an IPv4 or IPv6 address.
///
/// The name of the header must be a `sockaddr_in6` of the caller. The kernel has written as many of
/// its bytes as the name length says.
fn address(header: &libc::msghdr) -> Option<SocketAddr> {
    let name = header.msg_name;
    if (header.msg_namelen as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: validity: the memory is alive and aligned for both types, both of which begin with
    // this field. The kernel has written at least a `sockaddr_in`. Aliasing: this makes a copy, and
    // no one writes to the memory any more.
    let family = unsafe { name.cast::<libc::sa_family_t>().read() };
    if i32::from(family) == libc::AF_INET {
        // SAFETY: validity: the family says that this is a `sockaddr_in`, and the length says that
        // it is complete. Aliasing: this makes a copy, as above.
        let v4 = unsafe { name.cast::<libc::sockaddr_in>().read() };
        let ip = u32::from_be(v4.sin_addr.s_addr);
        let address = SocketAddrV4::new(ip.into(), u16::from_be(v4.sin_port));
        return Some(address.into());
    }
    if i32::from(family) != libc::AF_INET6
        || (header.msg_namelen as usize) < size_of::<libc::sockaddr_in6>()
    {
        return None;
    }
    // SAFETY: validity: the family says that this is a `sockaddr_in6`, and the length says that it
    // is complete. Aliasing: this makes a copy, as above.
    let v6 = unsafe { name.cast::<libc::sockaddr_in6>().read() };
    let ip = v6.sin6_addr.s6_addr.into();
    let port = u16::from_be(v6.sin6_port);
    let address = SocketAddrV6::new(ip, port, u32::from_be(v6.sin6_flowinfo), v6.sin6_scope_id);
    Some(address.into())
}

/// Returns whether the kernel can split messages.
pub(super) fn can_split(socket: &UdpSocket) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Sets whether the kernel merges consecutive datagrams from one sender.
pub(super) fn set_merging(socket: &UdpSocket, on: bool) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
}

/// Sets whether the kernel reports the time of arrival and the drop count with each datagram.
pub(super) fn set_arrival_info(socket: &UdpSocket, on: bool) -> io::Result<()> {
    let on = i32::from(on);
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on)
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let value = std::ptr::from_ref(&value).cast();
    // SAFETY: validity: the pointer points to a live C integer, which these options expect, and
    // `size` is its size. Aliasing: the call only reads it.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, size) };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
