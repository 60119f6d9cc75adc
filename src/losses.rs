//! Everything that a result lacks or could not place, by cause. Nothing is lost without a count here.

/// One cause with its count, as rows of `losses`, [`Profile::losses`](crate::Profile::losses) and
/// [`Summary::losses`](crate::Summary::losses) give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The cause's name, as in the table.
    pub cause: &'static str,
    /// How many records, events, rows or calls.
    pub count: u64,
    /// What that means, in a sentence part.
    pub meaning: &'static str,
}

macro_rules! causes {
    ($($variant:ident = $name:literal: $meaning:literal,)+) => {
        /// A cause of loss.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Cause { $($variant,)+ }

        impl Cause {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in the table and in a recording.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

causes! {
    RecordsDropped = "records_dropped": "records that CUPTI dropped for want of a buffer",
    BufferRequestsDeclined = "buffer_requests_declined": "times that no buffer was free when CUPTI asked for one",
    RecordsZeroTimestamp = "zero_timestamp": "records without times: the work had not ended, or CUPTI's device-side pool was exhausted; rows kept, valid = false",
    RecordsEndBeforeStart = "end_before_start": "records that end before they start; rows kept, valid = false",
    RecordsOutOfRange = "out_of_range": "records with times far outside the session; rows kept, valid = false",
    RecordsUnknown = "records_unknown": "records of a kind that this version does not decode",
    RecordsTruncated = "records_truncated": "records cut off by the end of their buffer",
    BuffersDamaged = "buffers_damaged": "buffers whose walk ended before their last byte",
    LaunchEventsDropped = "launch_events_dropped": "launching calls that were not logged because their thread's ring was full",
    RangeEventsDropped = "range_events_dropped": "range events that were not logged because their thread's ring was full",
    EventsMalformed = "events_malformed": "events that could not be decoded",
    LaunchedBeforeStart = "launched_before_start": "records of work launched before the session; rows kept, without a range",
    LaunchNotSeen = "launch_not_seen": "records whose launching call was not seen; rows kept, without a range",
    LaunchEvicted = "launch_evicted": "records that came after their launching call had left the bounded table; rows kept, without a range",
    LaunchesWithoutRecord = "launches_without_record": "kernel launches that CUPTI gave no record for, and no reason either: their rows are missing, unless a stream capture took them that began before the session and has not ended in it",
    GraphUnmapped = "graph_unmapped": "graph records whose correlation id is not that of a graph launch (a CUPTI fault before 13.1 Update 1)",
    UnbalancedPop = "unbalanced_pops": "NVTX pops without an open range on their thread",
    UnbalancedEnd = "unbalanced_ends": "NVTX ends of a range that is not open",
    RangesOpenAtFinish = "ranges_open_at_finish": "ranges that were still open at the end; rows kept, closed = false",
    RangeBeginLost = "range_begin_lost": "ranges that were used but whose beginning was not seen",
    RangeRowIncomplete = "range_row_incomplete": "records that came after the row of their range was written",
    ProcessRangeEventLost = "process_range_event_lost": "starts or ends of process-wide ranges that never arrived",
    ProcessRangeLeftOut = "process_range_left_out": "process-wide ranges that started while 64 were open (is an end missing?): launches inside are not added to them",
    KindsSwitchedOff = "kinds_switched_off": "kinds of records that something else in the process switched off: theirs are missing from then on",
    CallbackPanics = "callback_panics": "panics caught at the border to C",
    CuptiFatalErrors = "cupti_fatal_errors": "fatal errors that CUPTI reported: it has stopped recording",
    CallsFailed = "cupti_calls_failed": "CUPTI or driver calls that failed while the session ran or ended (`env`: failed.…): records may be missing",
    FlushTimeouts = "flush_timeouts": "flushes that did not come back in time: records still inside CUPTI are missing",
    ContextsForgotten = "contexts_forgotten": "contexts beyond those that the end of the session waits for",
    RowsNotWritten = "rows_not_written": "rows that could not be written to the dataset",
    RecordingFramesLost = "recording_frames_lost": "parts of the recording that could not be written or were cut off",
}

/// A count for each cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Losses([u64; Cause::ALL.len()]);

impl Default for Losses {
    fn default() -> Self {
        Self([0; Cause::ALL.len()])
    }
}

impl Losses {
    pub fn add(&mut self, cause: Cause, count: u64) {
        self.0[cause as usize] = self.0[cause as usize].saturating_add(count);
    }

    pub fn count(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// The causes that occurred, in the order of their declaration.
    pub fn to_vec(&self) -> Vec<Loss> {
        let counted = Cause::ALL.iter().zip(self.0);
        let occurred = counted.filter(|(_, count)| *count > 0);
        occurred.map(|(cause, count)| Loss { cause: cause.name(), count, meaning: cause.meaning() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_occurred_is_listed() {
        let mut losses = Losses::default();
        losses.add(Cause::RecordsDropped, 5);
        losses.add(Cause::RecordsDropped, 7);
        losses.add(Cause::RecordsUnknown, 0);
        let listed = losses.to_vec();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].cause, listed[0].count), ("records_dropped", 12));
    }

    #[test]
    fn names_are_distinct_snake_case() {
        let mut names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
    }
}
