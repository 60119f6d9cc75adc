//! The handler, called as C calls it: through the function tables that it filled.
#![expect(unsafe_code, reason = "stands in for NVTX and its callers, which are C")]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::from_ref;

use super::install::InitializeInjectionNvtx2_fnptr;
use crate::channel::tests::{TestSession, events, no_session};
use crate::channel::{Event, Named, Payload, RangeKind, decode, dropped};
use crate::range::log_launch;
use crate::units::{CorrelationId, RangeId};

type Function = *const c_void;

/// The part of NVTX that a tool sees: two tables of pointers to function pointers.
struct FakeNvtx {
    core: [UnsafeCell<Function>; 16],
    core2: [UnsafeCell<Function>; 16],
}

/// Pointers that C holds, for a thread-local: each test is its own program.
#[repr(C)]
struct Exports {
    size: usize,
    get_table: unsafe extern "C" fn(c_int, *mut *const *mut Function, *mut c_uint) -> c_int,
}

thread_local! {
    static NVTX: &'static FakeNvtx = Box::leak(Box::new(FakeNvtx {
        core: std::array::from_fn(|_| UnsafeCell::new(std::ptr::null())),
        core2: std::array::from_fn(|_| UnsafeCell::new(std::ptr::null())),
    }));
}

unsafe extern "C" fn get_table(module: c_int, table: *mut *const *mut Function, len: *mut c_uint) -> c_int {
    let functions = NVTX.with(|nvtx| match module {
        1 => Some(&nvtx.core),
        5 => Some(&nvtx.core2),
        _ => None,
    });
    let Some(functions) = functions else { return 0 };
    let entries: Vec<*mut Function> = functions.iter().map(UnsafeCell::get).collect();
    // SAFETY: the handler passes places to write to.
    unsafe { table.write(entries.leak().as_ptr()) };
    // SAFETY: as above.
    unsafe { len.write(16) };
    1
}

unsafe extern "C" fn exports(id: u32) -> *const c_void {
    static EXPORTS: Exports = Exports { size: size_of::<Exports>(), get_table };
    if id == 1 { (&raw const EXPORTS).cast() } else { std::ptr::null() }
}

/// NVTX as a C program has it, with the handler inside.
fn nvtx() -> &'static FakeNvtx {
    // SAFETY: `exports` behaves as NVTX's function does.
    assert_eq!(unsafe { InitializeInjectionNvtx2_fnptr(Some(exports)) }, 1);
    NVTX.with(|nvtx| *nvtx)
}

/// Calls a function of a table by its id and C signature.
macro_rules! call {
    ($table:expr, $id:literal, ($($type:ty),*) -> $returns:ty, ($($argument:expr),*)) => {{
        // SAFETY: the handler has written a function pointer, on this thread.
        let function = unsafe { *$table[$id].get() };
        // SAFETY: NVTX calls the function of this id with this signature.
        let function: extern "C" fn($($type),*) -> $returns = unsafe { std::mem::transmute(function) };
        function($($argument),*)
    }};
}

/// `nvtxEventAttributes_v2`, as a test fills it.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

const PLAIN: Attributes = Attributes {
    version: 3,
    size: 48,
    category: 0,
    color_type: 0,
    color: 0,
    payload_type: 0,
    reserved: 0,
    payload: 0,
    message_type: 0,
    message: std::ptr::null(),
};

impl FakeNvtx {
    fn push(&self, name: *const c_char) -> c_int {
        call!(self.core, 9, (*const c_char) -> c_int, (name))
    }

    fn push_wide(&self, name: *const u32) -> c_int {
        call!(self.core, 10, (*const u32) -> c_int, (name))
    }

    fn push_ex(&self, attributes: *const Attributes) -> c_int {
        call!(self.core, 8, (*const Attributes) -> c_int, (attributes))
    }

    fn pop(&self) -> c_int {
        call!(self.core, 11, () -> c_int, ())
    }

    fn mark_ex(&self, attributes: *const Attributes) {
        call!(self.core, 1, (*const Attributes) -> (), (attributes));
    }

    fn start(&self, name: &CStr) -> u64 {
        call!(self.core, 5, (*const c_char) -> u64, (name.as_ptr()))
    }

    fn end(&self, id: u64) {
        call!(self.core, 7, (u64) -> (), (id));
    }

    fn create_domain(&self, name: &CStr) -> usize {
        call!(self.core2, 12, (*const c_char) -> usize, (name.as_ptr()))
    }

    fn domain_push(&self, domain: usize, attributes: &Attributes) -> c_int {
        call!(self.core2, 4, (usize, *const Attributes) -> c_int, (domain, attributes))
    }

    fn domain_pop(&self, domain: usize) -> c_int {
        call!(self.core2, 5, (usize) -> c_int, (domain))
    }

    fn register(&self, domain: usize, text: &CStr) -> usize {
        call!(self.core2, 10, (usize, *const c_char) -> usize, (domain, text.as_ptr()))
    }
}

fn named(name: &CStr) -> Attributes {
    Attributes { message_type: 1, message: name.as_ptr().cast(), ..PLAIN }
}

fn wide(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).chain([0]).collect()
}

/// Name, category, colour and payload of each event that has them.
fn described<'a>(events: &'a [Event<'a>]) -> Vec<(&'a [u8], u32, Option<u32>, Payload)> {
    let described = |event: &'a Event<'a>| match event {
        Event::Begin { name, category, color, payload, .. }
        | Event::Mark { name, category, color, payload, .. } => Some((*name, *category, *color, *payload)),
        _ => None,
    };
    events.iter().filter_map(described).collect()
}

fn names<'a>(events: &'a [Event<'a>]) -> Vec<&'a [u8]> {
    described(events).into_iter().map(|(name, ..)| name).collect()
}

fn count_unbalanced(events: &[Event<'_>], of_process: bool) -> usize {
    let is_it =
        |event: &&Event<'_>| matches!(event, Event::Unbalanced { process, .. } if *process == of_process);
    events.iter().filter(is_it).count()
}

#[test]
fn pushes_and_pops_are_a_stack_with_launches_inside() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    assert_eq!(nvtx.push(c"outer".as_ptr()), 0);
    assert_eq!(nvtx.push_wide(wide("größer 🚀").as_ptr()), 1);
    log_launch(CorrelationId(1), true, 307, 0, || b"");
    assert_eq!(nvtx.pop(), 1);
    assert_eq!(nvtx.pop(), 0);
    let runs = test.drain();
    let events = events(&runs);
    let [
        Event::Begin {
            range: outer, kind: RangeKind::Stack, parent: None, name: b"outer", domain: 0, ..
        },
        Event::Begin { range: inner, parent, name, .. },
        Event::Launch { range: launched_in, .. },
        Event::End { range: first_end, .. },
        Event::End { range: second_end, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*name, "größer 🚀".as_bytes());
    assert_eq!((parent, launched_in), (&Some(*outer), &Some(*inner)));
    assert_eq!((first_end, second_end), (inner, outer));
}

#[test]
fn each_domain_has_its_own_stack() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    let domain = nvtx.create_domain(c"test: own stack");
    assert_eq!(nvtx.push(c"default".as_ptr()), 0);
    assert_eq!(nvtx.domain_push(domain, &named(c"in domain")), 0);
    assert_eq!(nvtx.pop(), 0); // the default domain's, although it lies below
    log_launch(CorrelationId(1), true, 307, 0, || b"");
    assert_eq!(nvtx.domain_pop(domain), 0);
    let runs = test.drain();
    let events = events(&runs);
    let [
        Event::Name { what: Named::Domain { domain: named }, name: b"test: own stack" },
        Event::Begin { range: in_default, domain: 0, .. },
        Event::Begin { range: in_domain, domain, .. },
        Event::End { range: first_end, .. },
        Event::Launch { range: launched_in, .. },
        Event::End { range: second_end, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(named, domain);
    assert_eq!((first_end, second_end), (in_default, in_domain));
    assert_eq!(launched_in, &Some(*in_domain));
}

#[test]
fn attributes_arrive_whatever_their_kind() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    let payloads = [
        (1, u64::MAX, Payload::U64(u64::MAX)),
        (2, -3_i64 as u64, Payload::I64(-3)),
        (3, 0.5_f64.to_bits(), Payload::F64(0.5)),
        (4, 0xffff_ffff_0000_0007, Payload::U64(7)),
        (5, 0xffff_ffff_ffff_fff9, Payload::I64(-7)),
        (6, 0.25_f32.to_bits().into(), Payload::F64(0.25)),
        (77, 1, Payload::None),
    ];
    for (payload_type, payload, _) in payloads {
        nvtx.mark_ex(&Attributes {
            category: 5,
            color_type: 1,
            color: 0xff00_ff00,
            payload_type,
            payload,
            ..named(c"mark")
        });
    }
    let registered = nvtx.register(0, c"registered");
    nvtx.mark_ex(&Attributes { message_type: 3, message: registered as *const c_void, ..PLAIN });
    let runs = test.drain();
    let events = events(&runs);
    let mut expected: Vec<(&[u8], _, _, _)> = Vec::new();
    for (_, _, payload) in payloads {
        expected.push((b"mark", 5, Some(0xff00_ff00), payload));
    }
    expected.push((b"registered", 0, None, Payload::None));
    assert_eq!(described(&events), expected);
}

#[test]
fn attributes_of_other_sizes_and_versions_are_read_as_far_as_they_go() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    let full = || Attributes { category: 5, color_type: 1, color: 9, ..named(c"name") };
    nvtx.mark_ex(&Attributes { version: 0, ..full() });
    nvtx.mark_ex(&Attributes { version: 99, ..full() });
    nvtx.mark_ex(&Attributes { size: u16::MAX, ..full() });
    nvtx.mark_ex(&Attributes { size: 16, ..full() });
    nvtx.mark_ex(&Attributes { size: 8, ..full() });
    nvtx.mark_ex(&Attributes { size: 0, ..full() });
    let misaligned: Vec<u8> = [0, 3, 0, 8, 0, 5, 0, 0, 0].to_vec();
    nvtx.mark_ex(misaligned[1..].as_ptr().cast());
    let runs = test.drain();
    let events = events(&runs);
    let expected: [(&[u8], _, _, _); 7] = [
        (b"", 0, None, Payload::None),
        (b"name", 5, Some(9), Payload::None),
        (b"name", 5, Some(9), Payload::None),
        (b"", 5, Some(9), Payload::None),
        (b"", 5, None, Payload::None),
        (b"", 0, None, Payload::None),
        (b"", 5, None, Payload::None),
    ];
    assert_eq!(described(&events), expected);
}

#[test]
fn hostile_text_arrives_as_it_is_or_is_left_out() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    nvtx.push(std::ptr::null());
    nvtx.push_wide(std::ptr::null());
    nvtx.push_ex(std::ptr::null());
    nvtx.push(c"".as_ptr());
    nvtx.push(c"\xff\xfe".as_ptr());
    nvtx.push_wide([0x11_0000, 0xd800, u32::from(b'a'), 0].as_ptr());
    let anywhere = 0xdead_beef_usize as *const c_void;
    for message_type in [0, 3, 4, -1, i32::MAX] {
        nvtx.push_ex(&Attributes { message_type, message: anywhere, ..PLAIN });
    }
    nvtx.push_ex(&Attributes { message_type: 1, ..PLAIN });
    nvtx.push_ex(&Attributes { message_type: 2, message: 3 as *const c_void, ..PLAIN }); // misaligned
    let runs = test.drain();
    let events = events(&runs);
    let mut expected: Vec<&[u8]> = vec![b""; 13];
    expected[4] = b"\xff\xfe";
    expected[5] = "\u{fffd}\u{fffd}a".as_bytes();
    assert_eq!(names(&events), expected);
}

#[test]
fn names_of_a_megabyte_arrive_whole() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    let long = vec![b'x'; 1 << 20];
    let with_nul: Vec<u8> = long.iter().copied().chain([0]).collect();
    nvtx.push(with_nul.as_ptr().cast());
    let wide: Vec<u32> = with_nul.iter().map(|&byte| byte.into()).collect();
    nvtx.push_wide(wide.as_ptr());
    let runs = test.drain();
    assert_eq!(names(&events(&runs)), [&long[..], &long[..]]);
    assert_eq!(dropped().range_events, 0);
}

#[test]
fn unbalanced_pops_and_ends_are_told_and_harmless() {
    let nvtx = nvtx();
    let mut test = TestSession::begin();
    assert_eq!(nvtx.pop(), -1);
    nvtx.push(c"pushed in an earlier session".as_ptr());
    let early = nvtx.start(c"started in an earlier session");
    test.again();
    assert_eq!(nvtx.pop(), 0);
    for id in [early, 0, u64::MAX, 1] {
        nvtx.end(id);
    }
    let runs = test.drain();
    let events = events(&runs);
    assert_eq!((count_unbalanced(&events, false), count_unbalanced(&events, true)), (1, 4));
    assert_eq!(events.len(), 5);
}

#[test]
fn starts_and_ends_are_process_ranges_that_may_cross_threads() {
    let nvtx = nvtx();
    let test = TestSession::begin();
    let first = nvtx.start(c"first");
    let second = nvtx.start(c"second");
    std::thread::spawn(move || self::nvtx().end(first)).join().unwrap();
    nvtx.end(second);
    let runs = test.drain();
    let events = events(&runs);
    let ranges_of = |of_begin: bool| {
        let mut ranges: Vec<RangeId> = events
            .iter()
            .filter_map(|event| match event {
                Event::Begin { range, kind: RangeKind::Process, .. } if of_begin => Some(*range),
                Event::End { range, .. } if !of_begin => Some(*range),
                _ => None,
            })
            .collect();
        ranges.sort_unstable();
        ranges
    };
    assert_eq!(ranges_of(true).len(), 2);
    assert_eq!(ranges_of(true), ranges_of(false));
}

#[test]
fn return_values_are_right_without_a_session() {
    let _alone = no_session();
    let nvtx = nvtx();
    let domain = nvtx.create_domain(c"test: no session");
    assert_eq!((nvtx.push(c"a".as_ptr()), nvtx.push(c"b".as_ptr())), (0, 1));
    assert_eq!(nvtx.domain_push(domain, &PLAIN), 0);
    assert_eq!((nvtx.pop(), nvtx.pop(), nvtx.pop()), (1, 0, -1));
    assert_eq!((nvtx.domain_pop(domain), nvtx.domain_pop(domain)), (0, -1));
    let (one, other) = (nvtx.start(c"a"), nvtx.start(c"b"));
    assert!(one != 0 && other != 0 && one != other);
    nvtx.end(one);
}

#[test]
fn names_given_before_a_session_are_known_to_it() {
    let _alone = no_session();
    let nvtx = nvtx();
    nvtx.create_domain(c"test: known early");
    call!(nvtx.core, 12, (u32, *const c_char) -> (), (4711, c"early category".as_ptr()));
    call!(nvtx.core, 15, (u32, *const u32) -> (), (4711, wide("early thread").as_ptr()));
    let known = super::known_names();
    let known: Vec<_> = decode(&known).map(|event| event.unwrap()).collect();
    let count = |wanted: &[u8]| {
        known.iter().filter(|e| matches!(e, Event::Name { name, .. } if *name == wanted)).count()
    };
    assert_eq!((count(b"test: known early"), count(b"early category"), count(b"early thread")), (1, 1, 1));
}

#[test]
fn calls_through_cuptis_callbacks_mean_the_same_with_cuptis_handles() {
    #[repr(C)]
    struct DomainAndAttributes(usize, *const Attributes);
    #[repr(C)]
    struct DomainAndText(usize, *const c_char);
    let dispatch = |cbid: u32, params: *const c_void, returned: u64| {
        let return_value = if returned == 0 { std::ptr::null() } else { from_ref(&returned).cast() };
        // SAFETY: each call below passes the structure of its id, or NULL.
        unsafe { super::dispatch_cupti(cbid, params, return_value) }
    };
    let test = TestSession::begin();
    let domain_handle = 0x7f00_1234_5670_usize;
    let string_handle = 0x7f00_1234_9990_usize;
    dispatch(41, from_ref(&c"test: cupti".as_ptr()).cast(), domain_handle as u64);
    let text = DomainAndText(domain_handle, c"registered with cupti".as_ptr());
    dispatch(39, from_ref(&text).cast(), string_handle as u64);
    let attributes = Attributes { message_type: 3, message: string_handle as *const c_void, ..PLAIN };
    let push = DomainAndAttributes(domain_handle, &attributes);
    dispatch(33, from_ref(&push).cast(), 0);
    dispatch(34, from_ref(&domain_handle).cast(), 0);
    dispatch(4, from_ref(&c"started".as_ptr()).cast(), 42);
    dispatch(7, from_ref(&42_u64).cast(), 0);
    dispatch(11, std::ptr::null(), 0);
    for cbid in [0, 1, 10, 33, 49, 50, u32::MAX] {
        dispatch(cbid, std::ptr::null(), 0);
    }
    let runs = test.drain();
    let events = events(&runs);
    let [
        Event::Name { what: Named::Domain { domain: named }, name: b"test: cupti" },
        Event::Begin { domain, name: b"registered with cupti", range: pushed, .. },
        Event::End { range: popped, .. },
        Event::Begin { kind: RangeKind::Process, name: b"started", range: started, .. },
        Event::End { range: ended, .. },
        Event::Unbalanced { domain: 0, process: false, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((domain, popped, ended), (named, pushed, started));
}

#[test]
fn the_variable_for_other_libraries_is_set_only_while_wanted_and_never_taken_from_another_tool() {
    use super::env::{Injection, VARIABLE};
    let before = std::env::var_os(VARIABLE);
    assert_eq!(before, None, "this test needs an environment without {VARIABLE}");
    let set = Injection::set("/some/libcupti.so".as_ref());
    assert_eq!(std::env::var_os(VARIABLE).as_deref(), Some("/some/libcupti.so".as_ref()));
    assert!(
        matches!(Injection::set("/ours".as_ref()), Injection::Taken(other) if other == "/some/libcupti.so")
    );
    drop(set);
    assert_eq!(std::env::var_os(VARIABLE), None);
}
