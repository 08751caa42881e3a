//! Warnings about packets that could not be sent.

use crate::net::udp::Outbox;
use crate::results::Measured;
use std::sync::Arc;

/// Returns a warning about packets that the system refused, with the reason of the first.
pub(crate) fn refused(count: u64, why: Option<&str>) -> String {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("the system refused to send {count} packets{why}")
}

/// Adds warnings about the packets that the outboxes could not send.
pub(super) fn report_unsent(outboxes: &[Arc<Outbox>], measured: &mut Measured) {
    let counted = |count: fn(&Outbox) -> u64| outboxes.iter().map(|o| count(o)).sum::<u64>();
    let failed = counted(Outbox::failed);
    let dropped = counted(Outbox::dropped);
    measured.lost = failed + dropped;
    if failed > 0 {
        let why = outboxes.iter().find_map(|outbox| outbox.first_error());
        measured.warnings.push(refused(failed, why.as_deref()));
    }
    for outbox in outboxes {
        for closed in outbox.closed_ports() {
            let (client, answers) = (closed.client, closed.answers);
            let times = if answers == 1 { "time" } else { "times" };
            match closed.from_beginning {
                true => measured.warnings.push(format!(
                    "nothing listens on {client}: its host rejected packets {answers} {times}. Start the receiver first, or check the address and the port"
                )),
                false => measured.notes.push(format!(
                    "{client} closed its port during the run: its host rejected packets {answers} {times}"
                )),
            }
        }
    }
    if dropped > 0 {
        measured.warnings.push(format!(
            "dropped {dropped} packets, because the socket's buffer stayed full"
        ));
    }
    if measured.skipped > 0 {
        let skipped = measured.skipped;
        measured.warnings.push(format!(
            "{skipped} packets were not sent, because the program did not run when they were due"
        ));
    }
}
