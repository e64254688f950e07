//! Tests of the exchange between replicas.

mod copied;
mod exchange;
mod histories;
mod push;
mod readers;
mod selective;
mod simulation;
mod unread_marks;
