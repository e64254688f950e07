//! Integration tests of the configuration: the errors of wrong values, the shapes of a file, the order of the sources,
//! contradictions between keys, and the round trip of a file.

mod bounds;
mod contradictions;
mod file_shapes;
mod fixture;
mod round_trip;
mod sources;
mod wrong_values;
