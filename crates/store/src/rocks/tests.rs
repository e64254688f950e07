//! Tests of the real engine that look at its files and options.
