//! Spans of `tracing` as ranges (feature `tracing`).

use std::cell::Cell;
use std::ops;

use tracing_core::field::{Field, Visit};
use tracing_core::{Subscriber, span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::guard::{self, Instance};
use super::{Description, begin_detached, end_on_stack, stack};
use crate::channel::{Arg, ArgValue, Session};

/// Turns spans into ranges: a `tracing_subscriber` layer.
///
/// A span is one range, from its creation until it is closed. While a thread is inside the span, work launched by that
/// thread belongs to the range; so the range follows an asynchronous task from thread to thread. Its name is the
/// span's name. Fields given at creation become typed arguments: numbers, `bool` and strings, up to
/// [`MAX_FIELDS`](Self::MAX_FIELDS); fields that would have to be formatted (`?field`, `%field`) are left out, because
/// formatting may run anything.
///
/// Its parent is the span's explicit parent if one was given, else the range that was innermost on the creating thread,
/// whoever made it.
///
/// A span that was created before the session becomes a range when it is next entered, without its fields.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let subscriber = tracing_subscriber::registry().with(cuprof::tracing::Layer::new());
/// tracing::subscriber::with_default(subscriber, || {
///     let _step = tracing::info_span!("step", n = 2048).entered();
/// });
/// ```
///
/// **Cost**: without a session, one relaxed load at each of tracing's calls.
#[derive(Debug, Default)]
pub struct Layer(());

impl Layer {
    /// How many fields of a span become arguments; further ones are left out.
    pub const MAX_FIELDS: usize = 16;

    /// The layer. One is enough; it serves every session.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let Some(session) = Session::current() else { return };
        let Some(span) = context.span(id) else { return };
        let parent = if attributes.is_contextual() {
            stack::innermost(session)
        } else {
            let parent = attributes.parent().and_then(|parent| context.span(parent));
            parent.and_then(|parent| instance(&parent, session)).map(|instance| instance.range)
        };
        Fields::with(attributes, |args| {
            let description = Description { name: span.name().as_bytes(), args, ..Description::default() };
            span.extensions_mut().replace(begin_detached(session, parent, &description));
        });
    }

    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        let Some(session) = Session::current() else { return };
        let Some(span) = context.span(id) else { return };
        guard::enter(instance(&span, session).unwrap_or_else(|| begin_late(&span, session)));
    }

    fn on_exit(&self, id: &span::Id, context: Context<'_, S>) {
        let Some(session) = Session::current() else { return };
        let range = context.span(id).and_then(|span| instance(&span, session));
        if let Some(Instance { session, range }) = range {
            stack::remove(session, range);
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let Some(session) = Session::current() else { return };
        let range = context.span(&id).and_then(|span| instance(&span, session));
        if let Some(Instance { session, range }) = range {
            end_on_stack(session, range);
        }
    }
}

/// The span's range, if it has one in the session.
fn instance<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>, session: Session) -> Option<Instance> {
    let extensions = span.extensions();
    extensions.get::<Instance>().copied().filter(|instance| instance.session == session)
}

/// Begins the range of a span that is older than the session; once, even if several threads enter it together.
fn begin_late<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>, session: Session) -> Instance {
    let mut extensions = span.extensions_mut();
    if let Some(begun) = extensions.get_mut::<Instance>().filter(|instance| instance.session == session) {
        return *begun;
    }
    let description = Description { name: span.name().as_bytes(), ..Description::default() };
    let begun = begin_detached(session, stack::innermost(session), &description);
    extensions.replace(begun);
    begun
}

/// The value of a field; text lies in a common buffer, because tracing lends it only for a moment.
enum Value {
    Plain(ArgValue<'static>),
    Text(ops::Range<usize>),
}

/// Collects the fields of a new span without allocating.
struct Fields {
    values: [(&'static str, Value); Layer::MAX_FIELDS],
    count: usize,
    text: String,
}

thread_local! {
    /// The buffer for texts of fields; reused, so that it allocates only for the longest so far.
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

impl Fields {
    fn with<R>(attributes: &span::Attributes<'_>, act: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        let values = [const { ("", Value::Plain(ArgValue::Bool(false))) }; Layer::MAX_FIELDS];
        let mut fields = Self { values, count: 0, text: TEXT.try_with(Cell::take).unwrap_or_default() };
        attributes.record(&mut fields);
        let args: [Arg<'_>; Layer::MAX_FIELDS] = std::array::from_fn(|at| match &fields.values[at] {
            (key, Value::Plain(value)) => Arg { key, value: *value },
            (key, Value::Text(place)) => Arg::new(key, fields.text.get(place.clone()).unwrap_or_default()),
        });
        let result = act(args.get(..fields.count).unwrap_or_default());
        fields.text.clear();
        // A thread that exits has no place for the buffer any more; it is freed then.
        let _ = TEXT.try_with(|place| place.set(fields.text));
        result
    }

    fn put(&mut self, field: &Field, value: Value) {
        if let Some(place) = self.values.get_mut(self.count) {
            *place = (field.name(), value);
            self.count += 1;
        }
    }

    fn put_plain(&mut self, field: &Field, value: impl Into<ArgValue<'static>>) {
        self.put(field, Value::Plain(value.into()));
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_plain(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.put(field, Value::Text(start..self.text.len()));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ::tracing::{Dispatch, dispatcher, info_span};
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::channel::tests::{TestSession, events};
    use crate::channel::{Event, RangeKind};
    use crate::range::log_launch;
    use crate::units::{CorrelationId, RangeId};

    fn dispatch() -> Dispatch {
        Dispatch::new(tracing_subscriber::registry().with(Layer::new()))
    }

    fn launch(correlation: u32) {
        log_launch(CorrelationId(correlation), true, 307, 0, || b"");
    }

    fn launches(events: &[Event<'_>]) -> Vec<(u32, Option<RangeId>)> {
        let launch = |event: &Event<'_>| match event {
            Event::Launch { correlation, range, .. } => Some((correlation.0, *range)),
            _ => None,
        };
        events.iter().filter_map(launch).collect()
    }

    #[test]
    fn a_span_is_a_range_with_typed_arguments_and_a_parent() {
        let test = TestSession::begin();
        dispatcher::with_default(&dispatch(), || {
            let _outer = crate::range!("outer");
            let text = String::from("fp16");
            let _span =
                info_span!("gemm", n = 7_u64, m = -7, beta = 0.5, t = true, precision = text, skipped = ?[1])
                    .entered();
            launch(1);
        });
        let runs = test.drain();
        let events = events(&runs);
        let [
            Event::Begin { range: outer, name: b"outer", .. },
            Event::Begin { range: span, name: b"gemm", kind: RangeKind::Own, parent, args, .. },
            Event::Launch { range: launched_in, .. },
            Event::End { range: first_end, .. },
            Event::End { range: second_end, .. },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((parent, launched_in), (&Some(*outer), &Some(*span)));
        assert_eq!((first_end, second_end), (span, outer));
        let expected = [
            Arg::new("n", 7_u64),
            Arg::new("m", -7_i64),
            Arg::new("beta", 0.5),
            Arg::new("t", true),
            Arg::new("precision", "fp16"),
        ];
        assert_eq!(args[..], expected);
    }

    #[test]
    fn a_span_keeps_its_range_while_two_threads_take_turns() {
        let test = TestSession::begin();
        let dispatch = dispatch();
        let span = dispatcher::with_default(&dispatch, || info_span!("task"));
        let (to_first, first) = mpsc::channel::<u32>();
        let (to_second, second) = mpsc::channel::<u32>();
        let turn = |turns: mpsc::Receiver<u32>, next: mpsc::Sender<u32>| {
            let (span, dispatch) = (span.clone(), dispatch.clone());
            move || {
                dispatcher::with_default(&dispatch, || {
                    for n in turns {
                        span.in_scope(|| launch(n));
                        launch(n + 1000);
                        if n == 20 || next.send(n + 1).is_err() {
                            return;
                        }
                    }
                });
            }
        };
        let threads =
            [std::thread::spawn(turn(first, to_second)), std::thread::spawn(turn(second, to_first.clone()))];
        to_first.send(1).unwrap();
        drop(to_first);
        for thread in threads {
            thread.join().unwrap();
        }
        drop(span);
        let runs = test.drain();
        let events = events(&runs);
        let begun = |event: &Event<'_>| match event {
            Event::Begin { range, .. } => Some(*range),
            _ => None,
        };
        let ranges: Vec<_> = events.iter().filter_map(begun).collect();
        let launches = launches(&events);
        assert_eq!((ranges.len(), launches.len()), (1, 40));
        for (correlation, range) in launches {
            assert_eq!(range, (correlation < 1000).then_some(ranges[0]));
        }
        assert!(events.iter().any(|event| matches!(event, Event::End { range, .. } if *range == ranges[0])));
    }

    #[test]
    fn a_span_older_than_the_session_becomes_a_range_when_it_is_entered() {
        let mut test = TestSession::begin();
        dispatcher::with_default(&dispatch(), || {
            let span = info_span!("old", n = 1);
            test.again();
            launch(1);
            span.in_scope(|| launch(2));
            span.in_scope(|| launch(3));
        });
        let runs = test.drain();
        let events = events(&runs);
        let [
            Event::Launch { range: None, .. },
            Event::Begin { range, name: b"old", .. },
            Event::Launch { range: first, .. },
            Event::Launch { range: second, .. },
            Event::End { range: ended, .. },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((first, second, ended), (&Some(*range), &Some(*range), range));
    }

    #[test]
    fn an_explicit_parent_counts_more_than_the_thread() {
        let test = TestSession::begin();
        dispatcher::with_default(&dispatch(), || {
            let request = info_span!("request");
            let _elsewhere = crate::range!("elsewhere");
            drop(info_span!(parent: &request, "part"));
            drop(info_span!(parent: None, "root"));
        });
        let runs = test.drain();
        let events = events(&runs);
        let find = |wanted: &str| {
            events.iter().find_map(|event| match event {
                Event::Begin { name, range, parent, .. } if *name == wanted.as_bytes() => {
                    Some((*range, *parent))
                }
                _ => None,
            })
        };
        let (request, _) = find("request").unwrap();
        assert_eq!(find("part").unwrap().1, Some(request));
        assert_eq!(find("root").unwrap().1, None);
    }
}
