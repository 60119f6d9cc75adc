//! What other losses say of launches that have no record.

use crate::losses::{Cause, Losses};

/// Each counts records: so many launches at most have lost theirs to it.
const OF_RECORDS: [Cause; 4] =
    [Cause::RecordsDropped, Cause::RecordsUnknown, Cause::RecordsTruncated, Cause::LaunchEvicted];

/// Each may have cost any number of records, or of events that tell why there is none.
const OF_WHO_KNOWS_HOW_MANY: [Cause; 10] = [
    Cause::BuffersDamaged,
    Cause::KindsSwitchedOff,
    Cause::CallbackPanics,
    Cause::CuptiFatalErrors,
    Cause::CallsFailed,
    Cause::FlushTimeouts,
    Cause::ContextsForgotten,
    Cause::LaunchEventsDropped,
    Cause::EventsMalformed,
    Cause::RecordingFramesLost,
];

/// Whether a loss says why there may be no records.
pub(super) fn is_explained(losses: &Losses) -> bool {
    OF_RECORDS.iter().chain(&OF_WHO_KNOWS_HOW_MANY).any(|cause| losses.count(*cause) > 0)
}

/// How many of the launches without a record no other loss accounts for, so that nothing is counted twice.
pub(super) fn unexplained(without_record: u64, losses: &Losses) -> u64 {
    if OF_WHO_KNOWS_HOW_MANY.iter().any(|cause| losses.count(*cause) > 0) {
        return 0;
    }
    OF_RECORDS.iter().fold(without_record, |left, cause| left.saturating_sub(losses.count(*cause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_missing_for_one_reason_only() {
        let losses = |causes: &[(Cause, u64)]| {
            let mut losses = Losses::default();
            causes.iter().for_each(|(cause, count)| losses.add(*cause, *count));
            losses
        };
        assert_eq!(unexplained(5, &losses(&[])), 5);
        assert_eq!(unexplained(5, &losses(&[(Cause::UnbalancedPop, 3)])), 5, "that costs no record");
        assert_eq!(unexplained(5, &losses(&[(Cause::RecordsDropped, 3)])), 2);
        assert_eq!(unexplained(5, &losses(&[(Cause::RecordsDropped, 3), (Cause::RecordsUnknown, 9)])), 0);
        for cause in OF_WHO_KNOWS_HOW_MANY {
            assert_eq!(unexplained(5, &losses(&[(cause, 1)])), 0, "{cause:?}");
        }
    }
}
