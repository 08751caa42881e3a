//! The states of a controlled task and which triggers lead from one to another.
//!
//! ```text
//!   Unprepared ──prepare──▶ Prepared ──start──▶ Started ──pause──▶ Paused
//!        ▲                                       │   ▲               │
//!    unprepare                                   │   └────start──────┘
//!        │                                  flush-start          flush-start
//!     Stopped ◀──stop──────                      ▼                   ▼
//!        ▲                                    Flushing ──pause──▶ PausedFlushing
//!        └────────────────stop─────────────────  │ ◀──start─────      │
//!                                           flush-stop            flush-stop
//!                                                ▼                    ▼
//!                                             Started               Paused
//! ```
//!
//! The diagram leaves out some transitions:
//!
//! - Start and pause lead to `Started` and `Paused` from `Prepared` and `Stopped`, too.
//! - Stop leads to `Stopped` from all states except `Unprepared` and `Failed`.
//! - Unprepare leads to `Unprepared` from `Prepared`, `Stopped` and `Failed`.
//! - Fail leads to `Failed` from all states except `Unprepared`.
//!
//! A trigger that asks for the present state changes nothing. A trigger that is not valid in a
//! state is an error that names both, and it changes nothing either. If the work of a task ends,
//! the kind of end ([`Flow`]) decides whether the task flushes, stops or fails.
//!
//! Source: the states and triggers of the Task of GStreamer's threadshare elements, as its
//! documentation describes them.

use std::fmt;

/// The state of a controlled task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum State {
    /// The task does not hold its resources, because it has not acquired them yet or has released
    /// them.
    #[default]
    Unprepared,
    /// The task has acquired its resources and has not run yet.
    Prepared,
    /// The task runs.
    Started,
    /// The task waits, and keeps its unfinished work.
    Paused,
    /// The task drops its unfinished work, waits for the end of the flush, and then runs.
    Flushing,
    /// The task drops its unfinished work, waits for the end of the flush, and then stays paused.
    PausedFlushing,
    /// The task has ended. It can be started again or unprepared.
    Stopped,
    /// The task has failed. It can only be unprepared.
    Failed,
}

/// A request to change the state of a controlled task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// Acquire the resources, for example sockets and files.
    Prepare,
    /// Run the task.
    Start,
    /// Pause the task.
    Pause,
    /// Drop the unfinished work, and do no more work until the flush stops.
    FlushStart,
    /// End the flush.
    FlushStop,
    /// Stop the task.
    Stop,
    /// Release the resources.
    Unprepare,
    /// Report that the work has failed.
    Fail,
}

/// The error of a trigger that is not valid in the current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriggerError {
    /// The state, which has not changed.
    pub state: State,
    /// The trigger that was rejected.
    pub trigger: Trigger,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot apply {:?} in the state {:?}",
            self.trigger, self.state
        )
    }
}

impl std::error::Error for TriggerError {}

/// The way in which a step of the work ended, if the work does not simply continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flow {
    /// The next stage is flushing, so the task must flush too.
    Flushing,
    /// There is no more data, so the task must stop.
    EndOfStream,
    /// The work cannot continue, so the task must fail.
    Failed,
}

impl Flow {
    /// Returns the trigger that the task receives if a step ends in this way.
    pub fn trigger(self) -> Trigger {
        match self {
            Flow::Flushing => Trigger::FlushStart,
            Flow::EndOfStream => Trigger::Stop,
            Flow::Failed => Trigger::Fail,
        }
    }
}

impl State {
    /// Returns the state after `trigger`.
    ///
    /// # Errors
    ///
    /// Returns an error if the trigger is not valid in this state.
    ///
    /// ```
    /// use creel_media::control::{State, Trigger};
    ///
    /// let running = State::Prepared.after(Trigger::Start);
    /// assert_eq!(running, Ok(State::Started));
    /// assert!(State::Unprepared.after(Trigger::Start).is_err());
    /// ```
    pub fn after(self, trigger: Trigger) -> Result<State, TriggerError> {
        use State::*;
        let next = match (trigger, self) {
            (Trigger::Prepare, Unprepared | Prepared) => Prepared,
            (Trigger::Start, Prepared | Started | Paused | Stopped) => Started,
            (Trigger::Start, Flushing | PausedFlushing) => Flushing,
            (Trigger::Pause, Prepared | Started | Paused | Stopped) => Paused,
            (Trigger::Pause, Flushing | PausedFlushing) => PausedFlushing,
            (Trigger::FlushStart, Started | Flushing) => Flushing,
            (Trigger::FlushStart, Paused | PausedFlushing) => PausedFlushing,
            (Trigger::FlushStop, Started | Flushing) => Started,
            (Trigger::FlushStop, Paused | PausedFlushing) => Paused,
            (Trigger::Stop, Started | Paused | Flushing | PausedFlushing | Stopped) => Stopped,
            (Trigger::Stop, Prepared) => Stopped,
            (Trigger::Unprepare, Unprepared | Prepared | Stopped | Failed) => Unprepared,
            (Trigger::Fail, Unprepared) => return Err(self.refuses(trigger)),
            (Trigger::Fail, _) => Failed,
            _ => return Err(self.refuses(trigger)),
        };
        Ok(next)
    }

    pub(super) fn is_flushing(self) -> bool {
        matches!(self, State::Flushing | State::PausedFlushing)
    }

    fn refuses(self, trigger: Trigger) -> TriggerError {
        TriggerError {
            state: self,
            trigger,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::*;

    const STATES: [State; 8] = [
        Unprepared,
        Prepared,
        Started,
        Paused,
        Flushing,
        PausedFlushing,
        Stopped,
        Failed,
    ];
    const TRIGGERS: [Trigger; 8] = [
        Trigger::Prepare,
        Trigger::Start,
        Trigger::Pause,
        Trigger::FlushStart,
        Trigger::FlushStop,
        Trigger::Stop,
        Trigger::Unprepare,
        Trigger::Fail,
    ];

    #[test]
    fn transitions_follow_the_table() {
        // Each row is a state and each column is a trigger, in the order of the constants above. A
        // dash means that the trigger is rejected.
        let table = "
            Prepared - - - - - Unprepared -
            Prepared Started Paused - - Stopped Unprepared Failed
            - Started Paused Flushing Started Stopped - Failed
            - Started Paused PausedFlushing Paused Stopped - Failed
            - Flushing PausedFlushing Flushing Started Stopped - Failed
            - Flushing PausedFlushing PausedFlushing Paused Stopped - Failed
            - Started Paused - - Stopped Unprepared Failed
            - - - - - - Unprepared Failed";
        let rows = table.trim().lines();
        for (state, row) in STATES.into_iter().zip(rows) {
            for (trigger, expected) in TRIGGERS.into_iter().zip(row.split_whitespace()) {
                let next = state.after(trigger);
                let actual = next.map_or("-".into(), |next| format!("{next:?}"));
                assert_eq!(actual, expected, "{trigger:?} while {state:?}");
            }
        }
    }

    #[test]
    fn a_repeated_trigger_changes_nothing() {
        for state in STATES {
            for trigger in TRIGGERS {
                if let Ok(next) = state.after(trigger) {
                    assert_eq!(next.after(trigger), Ok(next), "{trigger:?} from {state:?}");
                }
            }
        }
    }

    #[test]
    fn the_error_of_a_trigger_names_the_state_and_the_trigger() {
        let refused = Unprepared.after(Trigger::Start).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot apply Start in the state Unprepared"
        );
    }

    #[test]
    fn each_kind_of_end_of_the_work_leads_to_its_own_state() {
        assert_eq!(Started.after(Flow::Flushing.trigger()), Ok(Flushing));
        assert_eq!(Started.after(Flow::EndOfStream.trigger()), Ok(Stopped));
        assert_eq!(Started.after(Flow::Failed.trigger()), Ok(Failed));
    }
}
