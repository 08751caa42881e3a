//! Answers requests from browsers: the page, the roads, the latest frame, details of one road, and
//! the controls.

use std::sync::{Arc, PoisonError};

use creel_console::http::{Answer, Request};
use serde_json::json;

use super::SharedState;

const BYTES: &str = "application/octet-stream";
const NOT_FOUND: &str = "404 Not Found";

impl SharedState {
    pub fn answer(&self, request: &Request) -> Answer {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => {
                let page = include_bytes!("page.html");
                Answer::ok("text/html; charset=utf-8", page.to_vec())
            }
            ("GET", "/icon.svg" | "/favicon.ico") => {
                Answer::ok("image/svg+xml", include_bytes!("icon.svg").to_vec())
            }
            ("GET", "/lanes") => {
                let lanes = self.details.iter().map(|detail| detail.lanes);
                Answer::ok(BYTES, lanes.collect())
            }
            ("GET", "/roads") => Answer::ok(BYTES, self.roads.clone()),
            ("GET", "/frame") => {
                let frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
                let frame = Arc::clone(&frame);
                Answer::ok(BYTES, frame.to_vec())
            }
            ("GET", "/road") => {
                let id = request.number("id").and_then(|id| usize::try_from(id).ok());
                match id.and_then(|id| self.details.get(id)) {
                    Some(detail) => Answer::json(detail),
                    None => Answer::refused(NOT_FOUND),
                }
            }
            ("GET", "/control") => {
                let control = *self.control.lock().unwrap_or_else(PoisonError::into_inner);
                Answer::json(&json!({"playing": control.playing, "speed": control.speed}))
            }
            ("POST", "/control") => Answer::json(&json!({"asked": self.apply_control(request)})),
            _ => Answer::refused(NOT_FOUND),
        }
    }

    /// Applies the controls that a browser has sent, and returns the number of control requests so
    /// far.
    fn apply_control(&self, request: &Request) -> u32 {
        const STEPS_MAX: u64 = 3600;
        let number = |name, most| request.number(name).map(|value| value.min(most) as u32);
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let playing = number("playing", 1);
        control.playing = playing.map_or(control.playing, |playing| playing > 0);
        control.speed = number("speed", 1_000_000).unwrap_or(control.speed);
        let steps = control.steps + number("steps", STEPS_MAX).unwrap_or(0);
        control.steps = steps.min(STEPS_MAX as u32);
        control.requests = control.requests.wrapping_add(1);
        self.changed.notify_all();
        control.requests
    }
}
