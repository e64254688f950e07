//! Tests of the formula language: tables of formulas and what they give, properties, limits, texts of errors.

mod analysis;
mod document;
mod effects;
mod errors;
mod fixture;
mod language;
mod lists;
mod names;
mod numbers;
mod others;
mod page;
mod properties;
mod texts;
mod times;
