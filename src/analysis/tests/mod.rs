mod digests;
mod hostile;
mod samples;
