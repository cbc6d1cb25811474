//! The disk in a log on simulated NOR. One program, which is linked once.

mod bounded;
mod common;
mod cost;
mod damage;
mod history;
mod intents;
mod model;
mod points;
mod powercut;
mod queue;
mod reserve;
