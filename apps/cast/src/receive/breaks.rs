//! Writes notes about discontinuities of received streams: restarts, jumps of the timestamps, and
//! changes to another clock or codec.

use crate::results::SourceReport;

/// Returns notes about the discontinuities of all streams.
pub(super) fn notes(sources: &[SourceReport]) -> Vec<String> {
    type Count = fn(&SourceReport) -> u64;
    let kinds: [(Count, &str); 5] = [
        (|source| source.restarts, "restarts of the sequence numbers"),
        (
            |source| source.timestamp_jumps,
            "jumps of the timestamps while the sequence numbers went on",
        ),
        (
            |source| source.clock_changes,
            "changes to a payload type with another clock",
        ),
        (
            |source| source.codec_changes,
            "changes to another audio format",
        ),
        (
            |source| u64::from(source.collision),
            "streams have an SSRC that packets from another address have as well",
        ),
    ];
    let mut notes = Vec::new();
    for (count, what) in kinds {
        let of = sources.iter().filter(|source| count(source) > 0);
        let streams: Vec<String> = of.map(|source| source.stream.to_string()).collect();
        let total: u64 = sources.iter().map(count).sum();
        if let Some(some) = streams
            .get(..streams.len().min(8))
            .filter(|it| !it.is_empty())
        {
            let more = if streams.len() > 8 { ", …" } else { "" };
            notes.push(format!("{total} {what} (stream {}{more})", some.join(", ")));
        }
    }
    let is_broken =
        |source: &SourceReport| source.restarts + source.timestamp_jumps + source.clock_changes > 0;
    if sources.iter().any(is_broken) {
        notes.push(
            "after a restart, a jump or a change of the clock, the measurement of jitter and lateness begins again, and recordings continue at the time of arrival"
                .into(),
        );
    }
    notes
}
