//! The rules of the house, and what it depends on.

mod dependencies;
mod house;
