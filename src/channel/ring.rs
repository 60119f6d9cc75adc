//! One thread's ring of words: a single producer that never waits, a single consumer.
//!
//! The words are atomics used with relaxed ordering, which cost what plain memory costs, so the ring needs no
//! unsafe code: a second producer by mistake could scramble records (decoding copes), never memory.

use super::clock::Timeline;
use super::event::Event;
use super::wire::{self, Header, Sink, Time, WORD_BYTES};
use crate::sync::{ArrayQueue, AtomicBool, AtomicU64, AtomicUsize, Ordering, sized, statics};

/// The longest record inside a ring; a longer one (a name or an argument above 4 KiB) is spilled.
const MAX_INLINE_WORDS: usize = sized(4096 / WORD_BYTES + 64, 12);

/// The longest record at all; an event with a longer name is dropped and counted.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// How many spilled records of one thread may wait for the worker.
const MAX_SPILLED: usize = 32;

/// The memory that spilled records of all threads may hold together.
pub(crate) const MAX_SPILLED_BYTES: usize = 64 << 20;

statics! {
    /// The memory that spilled records hold now.
    static SPILLED_BYTES: AtomicUsize = AtomicUsize::new(0);
}

pub(super) fn spilled_bytes() -> usize {
    SPILLED_BYTES.load(Ordering::Relaxed)
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Stored,
    /// Stored, and the worker should run: the ring has just become half full, or a long record waits outside it.
    Pressing,
    /// Not stored: no room.
    Dropped,
}

/// Positions count words from the ring's birth and never wrap in practice (2^64 words).
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    producer: Producer,
    consumer: Consumer,
    /// Records that are too long for the ring, in the order of their placeholders in it.
    spilled: ArrayQueue<Vec<u8>>,
    /// The owning thread has exited: nothing more will come.
    retired: AtomicBool,
}

/// What the producer writes, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Producer {
    head: AtomicUsize,
    /// The consumer's position when the producer last looked: it need not look while the ring is below half.
    seen_tail: AtomicUsize,
}

/// What the consumer writes, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Consumer {
    tail: AtomicUsize,
}

impl Ring {
    /// A ring of at least this many words. Writes every page once, so that logging never faults.
    pub fn new(words: usize) -> Self {
        Self {
            words: (0..words.next_power_of_two()).map(|_| AtomicU64::new(0)).collect(),
            producer: Producer::default(),
            consumer: Consumer::default(),
            spilled: ArrayQueue::new(MAX_SPILLED),
            retired: AtomicBool::new(false),
        }
    }

    /// Appends an event, or drops it for want of room. Only the owning thread calls this.
    #[inline]
    pub fn push<T: Time>(&self, tag: u16, event: &Event<'_, T>) -> Pushed {
        let words = wire::words(event);
        if words > MAX_INLINE_WORDS {
            return self.push_spilled(tag, event, words);
        }
        self.push_words(words, |sink| wire::encode(event, words, tag, sink))
    }

    /// Long records go through the heap: the one case in which logging allocates. Their place in the order is
    /// kept by a placeholder in the ring.
    #[cold]
    fn push_spilled<T: Time>(&self, tag: u16, event: &Event<'_, T>, words: usize) -> Pushed {
        let bytes = words.saturating_mul(WORD_BYTES);
        if bytes > MAX_EVENT_BYTES || self.spilled.is_full() || self.room() == 0 {
            return Pushed::Dropped;
        }
        if SPILLED_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_SPILLED_BYTES {
            SPILLED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
            return Pushed::Dropped;
        }
        let mut record = Vec::with_capacity(bytes);
        wire::encode(event, words, 0, &mut record);
        // Only this thread adds, so the queue and the ring still have the room that was seen above.
        if self.spilled.push(record).is_err() {
            SPILLED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
            return Pushed::Dropped;
        }
        match self.push_words(1, |sink| sink.word(Header::spilled(tag).to_word())) {
            Pushed::Dropped => Pushed::Dropped,
            Pushed::Stored | Pushed::Pressing => Pushed::Pressing,
        }
    }

    #[inline]
    fn push_words(&self, words: usize, write: impl FnOnce(&mut Cursor<'_>)) -> Pushed {
        let half = self.words.len() / 2;
        let head = self.producer.head.load(Ordering::Relaxed);
        let mut used = head - self.producer.seen_tail.load(Ordering::Relaxed);
        if used + words >= half {
            used = head - self.look_at_tail();
        }
        if used + words > self.words.len() {
            return Pushed::Dropped;
        }
        write(&mut Cursor { ring: self, at: head });
        // ATOMICS: pairs with the acquire load of `head` in `drain`, which then sees the words written above.
        self.producer.head.store(head + words, Ordering::Release);
        self.touch_ahead(head, words, used);
        if used < half && used + words >= half { Pushed::Pressing } else { Pushed::Stored }
    }

    /// Writes to the cache lines that come next: the consumer's core has them, and getting them back takes as long as
    /// everything else here. Begun now, it overlaps with what the application does until its next event.
    #[inline]
    fn touch_ahead(&self, head: usize, words: usize, used: usize) {
        const LINE: usize = 64 / WORD_BYTES;
        /// Lines ahead of the one that is being written; a launch in a range fills two.
        const AHEAD: usize = 4;
        let (before, after) = (head / LINE, (head + words) / LINE);
        if used + words + (AHEAD + 2) * LINE > self.words.len() {
            return; // unread words lie there
        }
        for line in after.max(before + AHEAD) + 1..=after + AHEAD {
            self.cell(line * LINE).store(0, Ordering::Relaxed);
        }
    }

    fn look_at_tail(&self) -> usize {
        // ATOMICS: pairs with the release store of `tail` in `drain`: the words before it have been read.
        let tail = self.consumer.tail.load(Ordering::Acquire);
        self.producer.seen_tail.store(tail, Ordering::Relaxed);
        tail
    }

    fn room(&self) -> usize {
        self.words.len() - (self.producer.head.load(Ordering::Relaxed) - self.look_at_tail())
    }

    #[inline]
    fn cell(&self, at: usize) -> &AtomicU64 {
        // The length is a power of two.
        &self.words[at & (self.words.len() - 1)]
    }

    /// How far the producer has got: what `drain` may read.
    pub fn head(&self) -> usize {
        // ATOMICS: pairs with the release store of `head` in `push_words`: the words before it can be read.
        self.producer.head.load(Ordering::Acquire)
    }

    /// Moves every whole record of the tagged session before `head` to the end of `run`, with stamps turned into
    /// times, and forgets all others. Only the worker calls this.
    pub fn drain(&self, head: usize, tag: u16, timeline: &Timeline, run: &mut Vec<u8>) {
        let mut at = self.consumer.tail.load(Ordering::Relaxed);
        while at != head {
            let mut header = Header::from_word(self.cell(at).load(Ordering::Relaxed));
            let wanted = header.tag == tag;
            let next = at + header.words as usize;
            if next <= at || next > head {
                break; // not a record: whatever wrote it was not this ring's one producer
            }
            let start = run.len();
            if header.is_spilled() {
                let record = self.spilled.pop().unwrap_or_default();
                SPILLED_BYTES.fetch_sub(record.len(), Ordering::Relaxed);
                if wanted {
                    run.extend_from_slice(&record);
                }
            } else if wanted {
                header.tag = 0;
                run.word(header.to_word());
                (at + 1..next).for_each(|at| run.word(self.cell(at).load(Ordering::Relaxed)));
            }
            if let Some(record) = run.get_mut(start..) {
                wire::place_in_time(record, timeline);
            }
            at = next;
        }
        // ATOMICS: pairs with the acquire load of `tail` in `look_at_tail`: the producer may overwrite now.
        self.consumer.tail.store(head, Ordering::Release);
    }

    /// The owning thread exits.
    pub fn retire(&self) {
        // ATOMICS: pairs with the acquire load in `is_retired`: whoever sees it drains all of the thread's events.
        self.retired.store(true, Ordering::Release);
    }

    /// Whether the owning thread has exited; what it had logged is then visible to a `drain` that follows.
    pub fn is_retired(&self) -> bool {
        // ATOMICS: pairs with the release store in `retire`.
        self.retired.load(Ordering::Acquire)
    }

    /// Makes a drained ring of an exited thread ready for another thread.
    pub fn revive(&self) {
        self.retired.store(false, Ordering::Relaxed);
    }
}

/// Writes words into free space of the ring.
struct Cursor<'r> {
    ring: &'r Ring,
    at: usize,
}

impl Sink for Cursor<'_> {
    #[inline]
    fn word(&mut self, word: u64) {
        self.ring.cell(self.at).store(word, Ordering::Relaxed);
        self.at += 1;
    }
}
