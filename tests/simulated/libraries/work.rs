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
