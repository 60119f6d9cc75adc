mod digests;
mod hostile;
mod samples;
mod traces;
