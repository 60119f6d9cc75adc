//! Calls of the `nvtx` crate arrive as events, with nothing set up but a session: the handler is linked into this
//! program and NVTX finds it at its first call.
//!
//! One test in a binary of its own, because NVTX initialises once per process.

use cuprof::testing::{self, Seen};

/// The events of what `act` does.
fn events_of(act: impl FnOnce()) -> Vec<Seen> {
    testing::begin_session();
    act();
    testing::end_session();
    testing::drain()
}

#[expect(clippy::panic, reason = "a failed test says what it saw")]
fn named<'s>(seen: &'s [Seen], what: &str, name: &str) -> &'s Seen {
    let found = seen.iter().find(|event| event.what == what && event.name == name);
    found.unwrap_or_else(|| panic!("no {what} {name:?} in {seen:#?}"))
}

fn ends_of(seen: &[Seen], range: u64) -> usize {
    seen.iter().filter(|event| event.what == "end" && event.range == range).count()
}

#[test]
fn everything_that_the_nvtx_crate_can_say_arrives() {
    // The crate's own range comes first, so that it is what initialises NVTX: it must not come back as a push.
    assert!(!testing::nvtx_initialised());
    let seen = events_of(|| {
        for _ in 0..2 {
            let _own = cuprof::range!("own range");
            testing::launch(1);
        }
    });
    assert!(testing::nvtx_initialised());
    assert_eq!(seen.iter().map(|event| event.what).collect::<Vec<_>>(), ["own", "launch", "end"].repeat(2));

    let seen = events_of(|| {
        let _outer = nvtx::LocalRange::new(c"outer");
        let _inner = nvtx::LocalRange::new(nvtx::Str::from_str_lossy("größer 🚀")); // not ASCII: goes as wide text
        testing::launch(1);
    });
    let (outer, inner) = (named(&seen, "push", "outer"), named(&seen, "push", "größer 🚀"));
    assert_eq!((outer.parent, inner.parent), (0, outer.range));
    assert_eq!(named(&seen, "launch", "").range, inner.range);
    assert_eq!((ends_of(&seen, outer.range), ends_of(&seen, inner.range)), (1, 1));

    let seen = events_of(|| {
        let range = nvtx::Range::new(c"process wide");
        std::thread::spawn(move || drop(range)).join().unwrap();
    });
    assert_eq!(ends_of(&seen, named(&seen, "start", "process wide").range), 1);

    let seen = events_of(|| {
        let domain = nvtx::Domain::new(c"my domain");
        let text = domain.register_string(c"registered");
        let category = domain.register_category(c"my category");
        let attributes = domain
            .event_attributes_builder()
            .category(category)
            .color(nvtx::Color::new(0x11, 0x22, 0x33, 0x44))
            .payload(-5_i32)
            .message(text)
            .build();
        {
            let _local = domain.local_range(attributes.clone());
            let _process = domain.range(attributes.clone());
            domain.mark(attributes);
        }
    });
    let domain = named(&seen, "name", "my domain").domain;
    let category = named(&seen, "name", "my category");
    assert_eq!(category.domain, domain);
    for what in ["push", "start", "mark"] {
        let event = named(&seen, what, "registered");
        assert_eq!(
            (event.domain, event.category, event.color),
            (domain, category.category, Some(0x4411_2233))
        );
        assert_eq!(event.payload, "I64(-5)");
    }

    let seen = events_of(|| {
        let attributes = nvtx::EventAttributes::builder().payload(0.25_f32).message(c"mark").build();
        nvtx::mark(attributes);
        nvtx::mark_ascii(c"ascii");
        nvtx::name_thread(4711, c"a thread");
    });
    assert_eq!(named(&seen, "mark", "mark").payload, "F64(0.25)");
    named(&seen, "mark", "ascii");
    assert_eq!(named(&seen, "name", "a thread").category, 4711);

    let before = nvtx::LocalRange::new(c"pushed before the session");
    let seen = events_of(|| drop(before));
    assert_eq!(seen.iter().map(|event| event.what).collect::<Vec<_>>(), ["unbalanced"]);
    assert_eq!(testing::dropped(), 0);
}
