mod datasets;
mod faults;
mod layout;
mod recovery;
mod round_trip;
mod samples;
