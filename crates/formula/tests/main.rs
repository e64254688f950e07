//! Tests of the formula language: tables of formulas and their values, properties, limits and error messages.

mod analysis;
mod document;
mod effects;
mod errors;
mod fixture;
mod function_table;
mod language;
mod lists;
mod models;
mod names;
mod numbers;
mod properties;
mod reimplementations;
mod texts;
mod times;
