//! Tests the page from outside, with plain HTTP requests and, if available, in a real browser.

#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use retry::retry;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program and returns its port.
fn watch(arguments: &[&str]) -> (Running, u16) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_creel-traffic"))
        .args(["watch", "--port", "0"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port = line
        .trim()
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    (
        Running(child),
        port.unwrap_or_else(|| panic!("no address: {line}")),
    )
}

/// Sends bytes and returns the answer.
fn send(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn get(port: u16, path: &str) -> Vec<u8> {
    let answer = send(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes(),
    );
    let body = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .unwrap()
        + 4;
    answer[body..].to_vec()
}

fn status(port: u16, request: &str) -> String {
    let answer = send(port, request.as_bytes());
    String::from_utf8_lossy(&answer)
        .split(' ')
        .nth(1)
        .unwrap_or("none")
        .to_owned()
}

#[test]
fn the_page_survives_malformed_requests() {
    let (_program, port) = watch(&["--city", "5x5", "--cars", "20", "--speed", "0"]);
    let host = format!("Host: localhost:{port}\r\n\r\n");
    assert_eq!(status(port, &format!("GET / HTTP/1.1\r\n{host}")), "200");
    assert_eq!(
        status(port, &format!("GET /../../etc/passwd HTTP/1.1\r\n{host}")),
        "404"
    );
    assert_eq!(status(port, &format!("DELETE / HTTP/1.1\r\n{host}")), "405");
    assert_eq!(
        status(
            port,
            &format!("GET /road?id=99999999999 HTTP/1.1\r\n{host}")
        ),
        "404"
    );
    assert_eq!(
        status(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        "403"
    );
    assert_eq!(status(port, "GET / HTTP/1.1\r\n\r\n"), "403");
    // A request from another page in the same browser is rejected.
    assert_eq!(
        status(
            port,
            &format!("POST /control?playing=1 HTTP/1.1\r\nOrigin: http://evil.example\r\n{host}")
        ),
        "403"
    );
    assert_eq!(
        status(
            port,
            &format!(
                "POST /control?playing=0 HTTP/1.1\r\nOrigin: http://localhost:{port}\r\n{host}"
            )
        ),
        "200"
    );
    assert_eq!(status(port, "\r\n\r\n"), "400");
    assert_eq!(
        status(
            port,
            &format!("POST /control?steps=x&speed=-1 HTTP/1.1\r\n{host}")
        ),
        "200"
    );
    send(port, &vec![b'A'; 100_000]);
    send(port, &[0xFF; 4000]);
    // Open many connections that send nothing. The server closes those above its limit.
    let silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    drop(silent);
    let begun = Instant::now();
    while status(port, &format!("GET /frame HTTP/1.1\r\n{host}")) != "200" {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server no longer answers"
        );
    }
    assert_eq!(get(port, "/roads").len(), 16 * 80);
    assert_eq!(get(port, "/lanes"), [1; 80]);
    assert_eq!(get(port, "/frame").len(), 56 + 80);
}

#[test]
fn a_port_in_use_is_reported() {
    let (_program, port) = watch(&["--city", "2x2", "--speed", "0"]);
    let other = Command::new(env!("CARGO_BIN_EXE_creel-traffic"))
        .args(["watch", "--city", "2x2", "--port", &port.to_string()])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(75));
    let output = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        output.contains(&format!("cannot listen on port {port}: it is in use")),
        "{output}"
    );
}

/// A WebDriver session, controlled by plain HTTP requests.
struct Browser {
    _driver: Running,
    /// We keep the driver's stdout open, because the driver would end if it could not write to it.
    _says: BufReader<std::process::ChildStdout>,
    port: u16,
    session: String,
}

impl Browser {
    fn start() -> Option<Self> {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut says = BufReader::new(child.stdout.take()?);
        let lines = says.by_ref().lines().map_while(Result::ok);
        let mut ports = lines.filter_map(|line| {
            line.split("successfully on port ")
                .nth(1)?
                .trim_end_matches('.')
                .parse()
                .ok()
        });
        let port = ports.next()?;
        drop(ports);
        let mut browser = Self {
            _driver: Running(child),
            _says: says,
            port,
            session: String::new(),
        };
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
            "--window-size=1200,800"
        ]);
        let wanted =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let made = browser.post("", &wanted);
        browser.session = format!("/{}", made["sessionId"].as_str()?);
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let (port, session, length) = (self.port, &self.session, body.len());
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "{method} /session{session}{path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap()
                }
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["value"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, &body.to_string())
    }

    fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    fn until(&self, condition: &str) {
        let begun = Instant::now();
        while self.script(&format!("return !!({condition})")) != json!(true) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{condition}: {}",
                self.script("return document.body.innerText")
            );
        }
    }

    /// Writes a screenshot into the folder that `CREEL_TRAFFIC_SCREENSHOTS` names.
    fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("CREEL_TRAFFIC_SCREENSHOTS") {
            let text = self.call("GET", "/screenshot", "");
            let path = std::path::Path::new(&folder).join(name);
            std::fs::write(path, text.as_str().unwrap_or_default()).unwrap();
        }
    }
}

impl Drop for Browser {
    /// Ends the browser session, even if the test has failed. Otherwise the browser would run for
    /// ever.
    fn drop(&mut self) {
        let (port, session) = (self.port, &self.session);
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            return;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
        let request = format!(
            "DELETE /session{session} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.write_all(request.as_bytes());
        let _ = retry(|| stream.read(&mut [0; 1024]));
    }
}

#[test]
fn the_page_shows_a_map_in_a_browser() {
    let Some(browser) = Browser::start() else {
        eprintln!("skipped: chromedriver or its browser is not installed");
        return;
    };
    let city = std::env::var("CREEL_TRAFFIC_CITY").unwrap_or_else(|_| "40x40".into());
    let cars = std::env::var("CREEL_TRAFFIC_CARS").unwrap_or_else(|_| "20000".into());
    let (_program, port) = watch(&[
        "--city",
        &city,
        "--noise",
        "30",
        "--avenues",
        "5",
        "--cars",
        &cars,
        "--speed",
        "60",
    ]);
    browser.post("/url", &json!({"url": format!("http://127.0.0.1:{port}/")}));
    browser.until("window.drawn > 3 && frame && frame.sums[0] > 120");
    // Check that something is drawn: the map has several colours.
    let colours = "const p = paper.getImageData(0, 0, map.width, map.height).data;
        const seen = new Set(); for (let i = 0; i < p.length; i += 4) seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]); return seen.size";
    assert!(
        browser.script(colours).as_u64() > Some(5),
        "{}",
        browser.script(colours)
    );
    browser.picture("whole.base64");
    // Pause stops the clock, step advances it by a minute, and play continues.
    browser.script("document.getElementById('play').click()");
    browser.until("document.getElementById('play').textContent === 'Play'");
    // A frame contains the number of control requests that it takes into account. This was the
    // first request.
    browser.until("frame.sums[6] === 1");
    let paused = browser.script("return frame.sums[0]").as_f64().unwrap();
    browser.script("document.getElementById('step').click()");
    browser.until(&format!("frame.sums[0] === {}", paused + 60.0));
    browser.script("document.getElementById('play').click()");
    browser.until(&format!("frame.sums[0] > {}", paused + 60.0));
    // Zoom in and click a road.
    let zoom = "map.dispatchEvent(new WheelEvent('wheel', { deltaY: -1200, clientX: 400, clientY: 500, cancelable: true })); return view.scale";
    let before = browser.script("return view.scale").as_f64().unwrap();
    let all = browser.script("return window.roadsDrawn === count && count > 1024");
    assert_eq!(all, json!(true));
    assert!(browser.script(zoom).as_f64().unwrap() > 5.0 * before);
    browser.until("window.roadsDrawn > 0 && window.roadsDrawn < count");
    browser.script("choose({ x: (roads[0] + roads[2]) / 2, y: (roads[1] + roads[3]) / 2 })");
    browser.until("document.getElementById('road').textContent.includes('km/h')");
    browser.picture("road.base64");
    // The page requests no other origin.
    let outside = "return performance.getEntriesByType('resource').filter(e => !e.name.startsWith(location.origin)).length";
    assert_eq!(browser.script(outside), json!(0));
    // Count the frames per second. While the simulation is paused, nothing is drawn.
    let frames = |act: &str| {
        let count = "const from = window.drawn, begun = performance.now(); setTimeout(() => { clearInterval(moved); done((window.drawn - from) / (performance.now() - begun) * 1000) }, 3000)";
        browser.script(&format!(
            "return new Promise(done => {{ const moved = setInterval(() => {{ {act} }}, 5); {count} }})"
        ))
    };
    // The selected road is marked. The whole map is visible between the panels, also in a low
    // window. Two fingers zoom the map but not the page, and keys move the map.
    assert_eq!(browser.script("return chosen >= 0"), json!(true));
    let free = "fit(); const [w, s, e, n] = bounds, x = x => map.clientWidth / 2 + (x - view.x) * view.scale, y = y => map.clientHeight / 2 - (y - view.y) * view.scale;
        return [...document.querySelectorAll('.panel:not([hidden])')].every(panel => { const box = panel.getBoundingClientRect(); return box.right <= x(w) || box.left >= x(e) || box.bottom <= y(n) || box.top >= y(s) })";
    assert_eq!(browser.script(free), json!(true));
    for (width, height) in [(900, 520), (500, 900), (1200, 800)] {
        browser.post("/window/rect", &json!({"width": width, "height": height}));
        browser.until(&format!("innerWidth === {width}"));
        assert_eq!(browser.script(free), json!(true), "{width} x {height}");
    }
    let page = "return [!!document.querySelector('meta[name=viewport]'), getComputedStyle(map).touchAction, map.tabIndex]";
    assert_eq!(browser.script(page), json!([true, "none", 0]));
    let keys = "const before = { ...view }; for (const key of ['ArrowRight', '+']) map.dispatchEvent(new KeyboardEvent('keydown', { key })); return view.x > before.x && view.scale > before.scale";
    assert_eq!(browser.script(keys), json!(true));
    browser.script("fit()");
    eprintln!(
        "frames per second of the whole map, without a graphics card: {} while it plays, {} while it is moved",
        frames(""),
        frames("view.x += 1")
    );
    browser.script("document.getElementById('play').click()");
    browser.until("document.getElementById('play').textContent === 'Play'");
    let still = "return new Promise(done => { const check = () => { const from = window.drawn; setTimeout(() => window.drawn === from ? done(true) : check(), 1000) }; check() })";
    assert_eq!(browser.script(still), json!(true));
}
