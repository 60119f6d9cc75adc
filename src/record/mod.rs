//! Bytes to typed records: pure, bounds-checked, by the layout of the library that wrote them.
