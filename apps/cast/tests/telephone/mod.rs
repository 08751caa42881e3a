//! The SIP telephone `baresip`, which plays a tone, writes what it hears to a file, and takes
//! commands on a TCP port.

use crate::peers::{Player, free_port, wav};
use crate::retry::retry;
use creel_cast::{Shape, Tone};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// A running telephone. It is killed when this value is dropped.
pub struct Telephone {
    _player: Player,
    commands: TcpStream,
    folder: PathBuf,
}

impl Telephone {
    /// Starts the telephone `user`, whose microphone hears a tone, and calls the exchange. `program`
    /// is `baresip`.
    pub fn call(
        mut program: Command,
        folder: &Path,
        user: &str,
        hertz: f64,
        exchange: SocketAddr,
    ) -> Self {
        let folder = folder.join(user);
        std::fs::create_dir_all(&folder).unwrap();
        let mut tone = vec![0; 8_000 * 60];
        Tone::new(Shape::Sine, hertz, 8_000).fill(&mut tone);
        let sound = folder.join("tone.wav");
        wav(&sound, &tone, 8_000, 1);
        let (on, ports) = (free_port(), free_port().port());
        let config = format!(
            "module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aufile.so\n\
             module sndfile.so\nmodule account.so\nmodule menu.so\nmodule uuid.so\n\
             module ctrl_tcp.so\nctrl_tcp_listen {on}\nnet_interface 127.0.0.1\n\
             sip_listen 127.0.0.1:0\nrtp_ports {ports}-{}\naudio_srate 8000-8000\n\
             audio_channels 1-1\naudio_source aufile,{}\nsnd_path {}\n",
            ports + 40,
            sound.display(),
            folder.display()
        );
        std::fs::write(folder.join("config"), config).unwrap();
        let account = format!("<sip:{user}@127.0.0.1>;regint=0;audio_codecs=pcmu,pcma\n");
        std::fs::write(folder.join("accounts"), account).unwrap();
        std::fs::write(folder.join("contacts"), "").unwrap();
        program.arg("-f").arg(&folder);
        let mut player = Player::start(&mut program);
        let begin = Instant::now();
        let commands = loop {
            if let Ok(commands) = TcpStream::connect(on) {
                break commands;
            }
            let status = player.0.try_wait().unwrap();
            assert!(status.is_none(), "baresip ended: {status:?}");
            assert!(begin.elapsed() < 60 * SECOND, "baresip does not start");
            std::thread::sleep(SECOND / 50);
        };
        commands.set_read_timeout(Some(60 * SECOND)).unwrap();
        let mut telephone = Telephone {
            _player: player,
            commands,
            folder,
        };
        telephone.command("dial", &format!("sip:room@{exchange}"));
        telephone
    }

    /// Gives the telephone a command, and waits until it has accepted it.
    pub fn command(&mut self, command: &str, parameters: &str) {
        let text = format!("{{\"command\":\"{command}\",\"params\":\"{parameters}\"}}");
        write!(self.commands, "{}:{text},", text.len()).unwrap();
        // Other messages are events.
        loop {
            let message = self.message();
            if message.contains("\"response\":true") {
                assert!(message.contains("\"ok\":true"), "{command}: {message}");
                return;
            }
        }
    }

    /// Reads a message, which is a netstring: its length, a colon, the message, and a comma.
    fn message(&mut self) -> String {
        let mut len = 0;
        loop {
            match self.byte() {
                b':' => break,
                digit => len = len * 10 + usize::from(digit - b'0'),
            }
        }
        let bytes: Vec<u8> = (0..len).map(|_| self.byte()).collect();
        assert_eq!(self.byte(), b',');
        String::from_utf8_lossy(&bytes).into()
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        let read = retry(|| self.commands.read(&mut byte));
        assert_eq!(read.expect("baresip must answer"), 1, "baresip has ended");
        byte[0]
    }

    /// Returns what the telephone has heard so far.
    fn heard(&self) -> Vec<i16> {
        let files = std::fs::read_dir(&self.folder).unwrap();
        let names = files.map(|file| file.unwrap().path());
        let mut recordings: Vec<PathBuf> = names
            .filter(|path| path.to_string_lossy().ends_with("-dec.wav"))
            .collect();
        recordings.sort();
        let bytes = recordings.last().map(|path| std::fs::read(path).unwrap());
        let bytes = bytes.unwrap_or_default();
        // The telephone completes the header at its end, so we skip it.
        let (pairs, _odd) = bytes.get(44..).unwrap_or_default().as_chunks::<2>();
        pairs.iter().map(|&pair| i16::from_le_bytes(pair)).collect()
    }

    /// Returns the number of samples that the telephone has heard.
    pub fn samples(&self) -> usize {
        self.heard().len()
    }

    /// Returns the amplitude of a tone in the last 200 ms that the telephone has heard.
    pub fn hears(&self, hertz: f64) -> f64 {
        let heard = self.heard();
        amplitude(&heard[heard.len().saturating_sub(1_600)..], hertz)
    }
}

/// Returns the amplitude of a tone in samples at 8,000 Hz.
pub fn amplitude(samples: &[i16], hertz: f64) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (n, &sample) in samples.iter().enumerate() {
        let angle = std::f64::consts::TAU * hertz * n as f64 / 8_000.0;
        cosine += f64::from(sample) * angle.cos();
        sine += f64::from(sample) * angle.sin();
    }
    2.0 * f64::hypot(cosine, sine) / samples.len().max(1) as f64
}
