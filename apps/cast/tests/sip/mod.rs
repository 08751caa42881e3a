//! A SIP exchange for tests. It answers every call with the port of a room or of a receiver, so
//! that the audio goes directly between the telephone and us.
//!
//! It answers INVITE and BYE, and can offer another codec during a call. Everything else of SIP is
//! left out.

use crate::retry::retry;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A call, from the view of the exchange.
#[derive(Debug, Clone)]
struct Call {
    id: String,
    /// The user name of the telephone.
    user: String,
    telephone: SocketAddr,
    /// The value of the telephone's header fields From and Contact, and of our header field To.
    from: String,
    contact: String,
    to: String,
    codec: Codec,
    /// The number of our requests, and of those that the telephone has accepted.
    requests: u32,
    accepted: u32,
    is_over: bool,
}

/// The codec of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Pcmu,
    Pcma,
}

impl Codec {
    fn media(self) -> (u8, &'static str) {
        match self {
            Codec::Pcmu => (0, "PCMU"),
            Codec::Pcma => (8, "PCMA"),
        }
    }
}

/// The exchange.
pub struct Exchange {
    socket: UdpSocket,
    media: SocketAddr,
    calls: Mutex<Vec<Call>>,
}

/// Returns the value of a header field.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let lines = message.lines().take_while(|line| !line.is_empty());
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let found = fields.find(|(it, _)| it.trim().eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// Returns the user name in a value like `<sip:user@host>;tag=1`.
fn user(address: &str) -> String {
    let after = address.split_once("sip:").map_or("", |(_, rest)| rest);
    after.split(['@', ':', '>']).next().unwrap_or("").into()
}

impl Exchange {
    /// Opens an exchange whose calls send their audio to `media`.
    pub fn new(media: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let time_out = Duration::from_millis(50);
        socket.set_read_timeout(Some(time_out)).unwrap();
        Exchange {
            socket,
            media,
            calls: Mutex::default(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers calls until `over` is set.
    pub fn run(&self, over: &AtomicBool) {
        let mut bytes = [0; 8_192];
        while !over.load(Ordering::Relaxed) {
            // We ignore errors, because a time-out is an error as well.
            if let Ok((len, from)) = retry(|| self.socket.recv_from(&mut bytes)) {
                self.receive(&String::from_utf8_lossy(&bytes[..len]), from);
            }
        }
    }

    fn receive(&self, message: &str, from: SocketAddr) {
        match message.split(' ').next() {
            Some("INVITE") => self.answer(message, from),
            Some("BYE") => {
                let id = field(message, "call-id");
                let mut calls = self.calls();
                let ended = calls.iter_mut().filter(|call| id == Some(&call.id));
                ended.for_each(|call| call.is_over = true);
                drop(calls);
                self.reply(message, from, "1", "");
            }
            Some("SIP/2.0") => self.acknowledge(message),
            _ => {}
        }
    }

    fn answer(&self, message: &str, from: SocketAddr) {
        let value = |name| field(message, name).unwrap_or("").to_string();
        let id = value("call-id");
        let mut calls = self.calls();
        let codec = match calls.iter().find(|call| call.id == id) {
            Some(call) => call.codec,
            None => {
                calls.push(Call {
                    user: user(&value("from")),
                    telephone: from,
                    from: value("from"),
                    contact: value("contact"),
                    to: value("to") + ";tag=1",
                    codec: Codec::Pcmu,
                    requests: 0,
                    accepted: 0,
                    is_over: false,
                    id,
                });
                Codec::Pcmu
            }
        };
        drop(calls);
        let direction = ["sendonly", "recvonly", "inactive"];
        let offered = |it: &&&str| message.contains(&format!("a={it}"));
        let direction = match direction.iter().find(offered) {
            Some(&"sendonly") => "recvonly",
            Some(&"recvonly") => "sendonly",
            Some(_) => "inactive",
            None => "sendrecv",
        };
        self.reply(message, from, "1", &self.description(codec, direction));
    }

    /// Returns a session description with the port for the audio.
    fn description(&self, codec: Codec, direction: &str) -> String {
        let (ip, port, (number, name)) = (self.media.ip(), self.media.port(), codec.media());
        format!(
            "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP {number} 101\r\na=rtpmap:{number} {name}/8000\r\n\
             a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na={direction}\r\n"
        )
    }

    /// Accepts a request. `tag` completes the header field To of the first one.
    fn reply(&self, request: &str, to: SocketAddr, tag: &str, body: &str) {
        let mut reply = String::from("SIP/2.0 200 OK\r\n");
        for line in request.lines().take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap_or("").to_lowercase();
            if ["via", "from", "call-id", "cseq"].contains(&name.as_str()) {
                reply += &format!("{line}\r\n");
            } else if name == "to" {
                let is_complete = line.contains("tag=");
                let tag = if is_complete {
                    ""
                } else {
                    &format!(";tag={tag}")
                };
                reply += &format!("{line}{tag}\r\n");
            }
        }
        let on = self.address();
        reply += &format!("Contact: <sip:test@{on}>\r\nContent-Type: application/sdp\r\n");
        reply += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.socket.send_to(reply.as_bytes(), to).unwrap();
    }

    fn request(&self, call: &Call, method: &str, body: &str) {
        let (on, number) = (self.address(), call.requests);
        let target = call.contact.trim_matches(['<', '>']);
        let target = target.split('>').next().unwrap_or(target);
        let Call {
            id, from, to, user, ..
        } = call;
        let message = format!(
            "{method} {target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {on};branch=z9hG4bK{user}{number}{method};rport\r\n\
             From: {to}\r\nTo: {from}\r\nCall-ID: {id}\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:test@{on}>\r\nMax-Forwards: 70\r\n\
             Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = self.socket.send_to(message.as_bytes(), call.telephone);
        sent.unwrap();
    }

    /// Offers another codec to a telephone (a re-INVITE).
    pub fn offer(&self, user: &str, codec: Codec) {
        let mut calls = self.calls();
        let call = calls
            .iter_mut()
            .find(|call| call.user == user && !call.is_over);
        let call = call.expect("the telephone has a call");
        call.codec = codec;
        call.requests += 1;
        self.request(call, "INVITE", &self.description(codec, "sendrecv"));
    }

    /// Acknowledges the reply to our offer.
    fn acknowledge(&self, message: &str) {
        let id = field(message, "call-id");
        let is_accepted = message.starts_with("SIP/2.0 200");
        let of_invite = field(message, "cseq").is_some_and(|it| it.contains("INVITE"));
        let mut calls = self.calls();
        let call = calls.iter_mut().find(|call| id == Some(&call.id));
        if let Some(call) = call.filter(|_| is_accepted && of_invite) {
            call.accepted = call.requests;
            self.request(call, "ACK", "");
        }
    }

    /// Returns the number of offers that a telephone has accepted.
    pub fn accepted(&self, user: &str) -> u32 {
        let calls = self.calls();
        let of_user = calls.iter().filter(|call| call.user == user);
        of_user.map(|call| call.accepted).sum()
    }

    /// Returns the number of calls that have begun, and of those that are over.
    pub fn count(&self) -> (usize, usize) {
        let calls = self.calls();
        let over = calls.iter().filter(|call| call.is_over).count();
        (calls.len(), over)
    }
}
