/// What a test has the simulation do, as the program's CUDA calls would. Shared by the library and the tests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The kind of the records, by CUPTI's number.
    pub kind: u32,
    /// The driver call that launches, by CUPTI's number; 0: nobody is told of a call.
    pub cbid: u32,
    /// How many calls.
    pub calls: u32,
    /// How many records each leads to.
    pub records: u32,
    /// Not 0: the records are those of a graph's nodes.
    pub graph: u32,
    pub stream: u32,
    pub device: u32,
    pub context: u32,
    /// Not 0: every call has this correlation id.
    pub correlation: u32,
    /// The call, from 1, whose records are lost; 0: none.
    pub lost: u32,
    /// Not 0: the calls fail with this code of the driver, and nothing is recorded.
    pub fails: u32,
    /// Not 0: every field of the records that is an enum of CUPTI's, cut to its width.
    pub enums: u32,
    /// Not 0: the work does not end before the program does.
    pub unfinished: u32,
    /// Not 0: `start` and `end` are written as they are. Otherwise work starts now and takes as many nanoseconds as
    /// its correlation id says.
    pub stamped: u32,
    /// Bytes that a record of a kind that the simulation does not know takes.
    pub size: u32,
    pub start: u64,
    pub end: u64,
    /// The kernel's name: it must stay where it is.
    pub name: *const std::ffi::c_char,
    /// Of a copy or fill.
    pub bytes: u64,
}

/// The name of [`Work::KERNEL`].
pub const SAXPY: &std::ffi::CStr = c"_Z5saxpyPfS_fi";

impl Work {
    /// One launch of one kernel.
    pub const KERNEL: Self = Self {
        kind: 10,  // concurrent kernel
        cbid: 307, // cuLaunchKernel
        calls: 1,
        records: 1,
        graph: 0,
        stream: 7,
        device: 0,
        context: 1,
        correlation: 0,
        lost: 0,
        fails: 0,
        enums: 0,
        unfinished: 0,
        stamped: 0,
        size: 0,
        start: 0,
        end: 0,
        name: SAXPY.as_ptr(),
        bytes: 0,
    };
}
