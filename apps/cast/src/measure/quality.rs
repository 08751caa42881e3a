//! The estimated quality of speech: the rating of the E-model, and the mean opinion score (MOS).
//!
//! We know the losses, including packets that were too late, and how they cluster. We know the
//! delay of the network only if extended reports measure the round-trip time. Otherwise the delay
//! is that of the receiver's own buffer, and the result is an upper bound. It exists only for
//! telephone codecs, because the E-model has no values for others.
//!
//! Source: ITU-T G.107 (the E-model, with its default values), G.113 appendix I (the codecs), and
//! R. Cole and J. Rosenbluth, "Voice over IP performance monitoring" (the impairment by delay).

use std::time::Duration;

/// The rating of a connection without impairments, with the default values of G.107.
const R_BEST: f64 = 93.2;

/// The impairment of a codec, and its robustness against losses.
struct Codec {
    impairment: f64,
    robustness: f64,
}

/// Returns the values of a static payload type. G.711 is the codec with concealment.
fn codec(payload_type: u8) -> Option<Codec> {
    let (impairment, robustness) = match payload_type {
        0 | 8 => (0.0, 25.1),
        4 => (15.0, 16.1),
        18 => (11.0, 19.0),
        _ => return None,
    };
    Some(Codec {
        impairment,
        robustness,
    })
}

/// Returns the rating (R) and the mean opinion score of a stream, or `None` if the E-model has no
/// values for its codec.
///
/// `lost` is the fraction of the packets that were lost or too late. `run_packets` is the mean
/// number of packets that were lost in a row.
pub(crate) fn rating(
    payload_type: u8,
    lost: f64,
    run_packets: f64,
    delay: Duration,
) -> Option<(f64, f64)> {
    let codec = codec(payload_type)?;
    // With random losses, the mean number of packets that are lost in a row is 1 / (1 - lost). The
    // ratio of the actual mean to this number states how clustered the losses are.
    let burst_ratio = (run_packets * (1.0 - lost)).max(1.0);
    let percent = 100.0 * lost;
    let by_loss = match percent > 0.0 {
        true => {
            let divisor = percent / burst_ratio + codec.robustness;
            codec.impairment + (95.0 - codec.impairment) * percent / divisor
        }
        false => codec.impairment,
    };
    let ms = delay.as_secs_f64() * 1e3;
    let by_delay = 0.024 * ms + 0.11 * (ms - 177.3).max(0.0);
    let rating = (R_BEST - by_delay - by_loss).clamp(0.0, 100.0);
    Some((rating, opinion(rating)))
}

/// Converts a rating to a mean opinion score. Source: G.107 annex B.
fn opinion(rating: f64) -> f64 {
    let curve = 1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6;
    curve.clamp(1.0, 4.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_and_opinion_scores_match_the_tables_of_g107() {
        // G.711 without losses has R = 93.2 and a MOS of 4.41.
        let (rating, score) = rating(0, 0.0, 0.0, Duration::ZERO).unwrap();
        assert!((rating - 93.2).abs() < 1e-9 && (score - 4.41).abs() < 0.005);
        // In annex B of G.107, R = 80 corresponds to a MOS of 4.03, and R = 50 to 2.58.
        assert!((opinion(80.0) - 4.03).abs() < 0.01);
        assert!((opinion(50.0) - 2.58).abs() < 0.01);
        assert_eq!((opinion(0.0), opinion(100.0)), (1.0, 4.5));
    }

    #[test]
    fn losses_bursts_and_delay_lower_the_rating() {
        let of = |lost, runs, ms| {
            let delay = Duration::from_millis(ms);
            rating(8, lost, runs, delay).unwrap().0
        };
        assert!(of(0.01, 1.0, 0) < of(0.0, 0.0, 0));
        assert!(of(0.05, 4.0, 0) < of(0.05, 1.0, 0));
        assert!(of(0.0, 0.0, 300) < of(0.0, 0.0, 100));
        assert!(rating(11, 0.0, 0.0, Duration::ZERO).is_none());
        assert_eq!(of(1.0, 100.0, 1_000), 0.0);
    }
}
