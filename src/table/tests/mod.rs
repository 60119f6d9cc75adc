mod datasets;
mod layout;
mod round_trip;
mod samples;
