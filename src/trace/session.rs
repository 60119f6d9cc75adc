//! CUPTI's side of a session: what has to be switched on, in which order, and how it is undone.

use std::ffi::OsString;

use cupti_sys::bindings as c;
use cupti_sys::loader::Environment;
use cupti_sys::{LibraryVersion, kind};

use super::builder::Builder;
use super::flusher::Flusher;
use super::warnings::WARNING;
use super::worker::LastWords;
use crate::cupti::{self, CONTEXTS, Libraries, Subscriber};
use crate::error::{Error, ErrorKind, Result, shown};
use crate::losses::Cause;
use crate::range::nvtx;

/// Before this version, switching kernel records off can hang for ever (CUPTI's release notes of 13.0 Update 1), so
/// the kind stays on; its buffers are then recycled unread.
const KERNELS_CAN_BE_DISABLED: LibraryVersion = LibraryVersion::from_api(130_001);

/// Whether what is counted after a traced session in the same process would be wrong, for kernels stay traced.
pub(crate) fn precludes_counting(version: LibraryVersion) -> bool {
    version < KERNELS_CAN_BE_DISABLED
}

/// The kinds of activity records that a session enables, beside kernels and what it was asked for.
const DEFAULT_KINDS: [u32; 4] = [kind::MEMCPY, kind::MEMCPY2, kind::MEMSET, kind::OVERHEAD];

/// What a session does about NVTX in other shared libraries.
pub(super) enum OtherNvtx {
    /// Nothing.
    Leave,
    /// It is pointed at CUPTI.
    Take,
    /// Another tool has it: this one.
    Taken(OsString),
    /// CUPTI of this version crashes in it.
    Crashes,
}

/// What is switched on.
pub(super) struct Tracing {
    libraries: Libraries,
    subscriber: Option<Subscriber>,
    /// The kinds of records that were switched on.
    kinds: Vec<u32>,
    /// Whether this CUPTI tells which kinds are on.
    kinds_can_be_seen: bool,
    flusher: Option<Flusher>,
    builder: Builder,
    nvtx: OtherNvtx,
    /// Whether buffers go to the worker.
    has_begun: bool,
    /// Facts about the start, such as attributes that the library refused.
    facts: Vec<(String, String)>,
}

impl Tracing {
    /// Switches everything on. On failure, dropping the half-made value switches everything off again.
    ///
    /// Also returns what is to be told of it, such as attributes that the library refused.
    pub fn start(libraries: Libraries, builder: &Builder, nvtx: OtherNvtx) -> Result<(Self, LastWords)> {
        let mut tracing = Self {
            libraries,
            subscriber: None,
            kinds: Vec::new(),
            kinds_can_be_seen: true,
            flusher: None,
            builder: builder.clone(),
            nvtx,
            has_begun: false,
            facts: Vec::new(),
        };
        tracing.switch_on()?;
        let facts = std::mem::take(&mut tracing.facts);
        Ok((tracing, LastWords { facts, ..LastWords::default() }))
    }

    /// Switches everything on; what was switched on when it fails is known.
    fn switch_on(&mut self) -> Result<()> {
        let tracing = self;
        let cupti = tracing.libraries.cupti;
        // First of all: if somebody else holds CUPTI, nothing of theirs may be touched.
        let subscriber = cupti.subscribe().map_err(name_the_holder)?;
        let refused = cupti.enable_launch_callbacks(&subscriber);
        let all_calls_are_seen = refused.is_empty();
        for (cbid, error) in refused {
            tracing.optional(&format!("cuptiEnableCallback(1, {cbid})"), Err(error));
        }
        if tracing.builder.watches_waits {
            cupti.enable_wait_callbacks(&subscriber);
        }
        let wanted = [
            (
                c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RESOURCE,
                c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_CONTEXT_CREATED.0,
            ),
            (
                c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RESOURCE,
                c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING.0,
            ),
            (
                c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_RESOURCE,
                c::CUpti_CallbackIdResource::CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING.0,
            ),
            (
                c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_STATE,
                c::CUpti_CallbackIdState::CUPTI_CBID_STATE_FATAL_ERROR.0,
            ),
        ];
        for (domain, cbid) in wanted {
            tracing.optional("cuptiEnableCallback", cupti.enable_callback(&subscriber, domain, cbid));
        }
        match &tracing.nvtx {
            OtherNvtx::Take => {
                let domain = c::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_NVTX;
                tracing.optional("cuptiEnableDomain(NVTX)", cupti.enable_domain(&subscriber, domain));
            }
            OtherNvtx::Taken(by) => {
                let taken = format!("left to another tool: {}", shown(by));
                tracing.facts.push((nvtx::env::VARIABLE.to_owned(), taken));
            }
            OtherNvtx::Crashes => {
                let text = "NVTX of other shared libraries is left alone: with this version of CUPTI it would crash; \
                            install CUPTI 13.0 Update 1 or newer";
                tracing.facts.push((format!("{WARNING}nvtx_libraries"), text.to_owned()));
            }
            OtherNvtx::Leave => {}
        }
        // From here on, dropping the half-made value unsubscribes.
        tracing.subscriber = Some(subscriber);
        tracing.set_attributes();
        cupti.register_buffer_callbacks()?;
        // What CUPTI still has from before the session goes back to the pool unread. (Before 13.0 Update 1 kernel
        // records stay on between sessions.)
        if !cupti::seen_nothing() {
            tracing.optional("cuptiActivityFlushAll", cupti.flush_all(true));
        }
        let _of_earlier_clients = cupti.take_dropped();
        if !std::mem::replace(&mut tracing.has_begun, true) {
            cupti::begin_session();
        }
        let kernels = tracing.builder.kernel_kind();
        cupti.enable(kernels).map_err(|error| name_the_other_kind(error, kernels))?;
        tracing.kinds.push(kernels);
        let how = if kernels == kind::KERNEL { "serialized" } else { "concurrent" };
        tracing.facts.push(("session.kernels".to_owned(), how.to_owned()));
        let extra_kinds = tracing.builder.extra_kinds.clone();
        for kind in DEFAULT_KINDS.iter().chain(&extra_kinds) {
            match cupti.enable(*kind) {
                Ok(()) => tracing.kinds.push(*kind),
                Err(error) => tracing.optional(&format!("cuptiActivityEnable({kind})"), Err(error)),
            }
        }
        cupti::expect_records(all_calls_are_seen);
        // A library that does not see what was switched on just now would not see either that it was switched off.
        tracing.kinds_can_be_seen = tracing.missing_kinds().is_some_and(|missing| missing.is_empty());
        tracing.flusher = Some(Flusher::start(cupti, tracing.builder.flush_period)?);
        Ok(())
    }

    /// Switches everything on again, after [`stop`](Self::stop).
    ///
    /// # Errors
    /// As of the start. The session then goes on without records.
    pub fn resume(&mut self) -> Result<()> {
        cupti::resume_session();
        let outcome = self.switch_on();
        // What was refused at the start was told then.
        self.facts.clear();
        if outcome.is_err() {
            self.stop();
        }
        outcome
    }

    /// Settings that make launches cheaper; a library that refuses one works without.
    fn set_attributes(&mut self) {
        use c::CUpti_ActivityAttribute as Attribute;
        let cupti = self.libraries.cupti;
        // The pool clears its blocks on the worker, so that CUPTI need not do it inside a launch.
        let zeroed = cupti.set_flag(Attribute::CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);
        self.optional("CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER", zeroed);
        if self.builder.device_buffers > 0 {
            let attribute = Attribute::CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE;
            let outcome = cupti.set_size(attribute, self.builder.device_buffers);
            self.optional("CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE", outcome);
        }
        self.optional("cuptiSetThreadIdType", cupti.use_system_thread_ids());
    }

    /// The session's kinds that are not on; none where CUPTI does not tell.
    fn missing_kinds(&self) -> Option<Vec<u32>> {
        if !self.kinds_can_be_seen || self.kinds.is_empty() {
            return None;
        }
        let mut on = Vec::new();
        self.libraries.cupti.enabled_kinds(&mut on).ok()?;
        Some(self.kinds.iter().copied().filter(|kind| !on.contains(kind)).collect())
    }

    /// Notes what the library refused; the session goes on without it.
    fn optional(&mut self, what: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.facts.push((format!("refused.{what}"), error.to_string()));
        }
    }

    /// Waits for the GPU and has CUPTI deliver everything. May take as long as the GPU does, or for ever.
    pub fn flush_to_the_end(&mut self) -> LastWords {
        let mut words = LastWords::default();
        if self.subscriber.is_none() {
            return words; // it could not go on after a suspension, which left nothing to deliver
        }
        // What other threads launch from here on may come too late.
        cupti::expect_records(false);
        let failures = &mut words.failures;
        let Libraries { driver, cupti, .. } = self.libraries;
        for context in CONTEXTS.live() {
            failures.extend(driver.synchronize(context).err());
        }
        // A CUPTI that has never asked for a buffer has nothing to deliver, and can hang when asked to.
        if !cupti::seen_nothing() {
            failures.extend(cupti.flush_all(false).err());
            failures.extend(cupti.flush_all(true).err());
        }
        for kind in self.missing_kinds().unwrap_or_default() {
            words.losses.push((Cause::KindsSwitchedOff, 1));
            words.facts.push((format!("switched_off.{kind}"), "by something else in the process".to_owned()));
        }
        match cupti.take_dropped() {
            Ok(dropped) => words.losses.push((Cause::RecordsDropped, dropped)),
            Err(error) => words.failures.push(error),
        }
        words
    }

    /// Switches everything off.
    pub fn stop(&mut self) -> Vec<Error> {
        self.flusher = None;
        let Libraries { cupti, version, .. } = self.libraries;
        let mut failures = Vec::new();
        let gone = self.missing_kinds().unwrap_or_default();
        for kind in self.kinds.drain(..).rev().filter(|kind| !gone.contains(kind)) {
            if kind == kind::CONCURRENT_KERNEL && version < KERNELS_CAN_BE_DISABLED {
                cupti::leave_kernels_on();
                continue;
            }
            failures.extend(cupti.disable(kind).err());
        }
        if let Some(subscriber) = self.subscriber.take() {
            failures.extend(cupti.unsubscribe(&subscriber).err());
        }
        failures
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Kernels are recorded by one kind or the other, for the whole process.
fn name_the_other_kind(error: Error, wanted: u32) -> Error {
    const NOT_COMPATIBLE: i32 = 14;
    if error.code != Some(NOT_COMPATIBLE) {
        return error;
    }
    let hint = if wanted == kind::KERNEL && cupti::kernels_are_on() {
        "kernels were traced before in this process without being serialised, and CUPTI before 13.0 Update 1 cannot switch \
         that off: serialise them from the first session on, or use a newer CUPTI"
    } else {
        "something else in the process has the kernels recorded the other way, serialised or concurrent: switch that off"
    };
    error.with_hint(hint)
}

/// Adds who may hold CUPTI, as far as the environment tells.
pub(super) fn name_the_holder(error: Error) -> Error {
    if error.kind != ErrorKind::Busy {
        return error;
    }
    const SIGNS: [&str; 4] = [
        "CUDA_INJECTION64_PATH",
        "NVTX_INJECTION64_PATH",
        "NSYS_PROFILING_SESSION_ID",
        "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    ];
    /// Parts of the names of libraries that such tools bring along.
    const LIBRARIES: [&str; 5] = [
        "sanitizer-public",
        "sanitizer-collection",
        "libcudadebugger",
        "libToolsInjection",
        "libcuda-injection",
    ];
    let set = SIGNS.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    let mapped = Environment::from_process().mapped;
    let mapped = mapped.iter().filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        LIBRARIES.iter().any(|library| name.contains(library))
    });
    let set: Vec<_> = set.chain(mapped.map(|file| format!("{} is loaded", shown(file)))).collect();
    let hint = "only one profiler can be active in a process: run without nsys, ncu, cuda-gdb, compute-sanitizer \
                or another CUPTI client";
    if set.is_empty() {
        error.with_hint(hint)
    } else {
        error.with_hint(format!("{hint}; signs of one: {}", set.join(", ")))
    }
}
