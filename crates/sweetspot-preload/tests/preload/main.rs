//! The preload library as programs meet it: which functions it stands in front of, and whether C
//! programs behave the same with it and without.

mod behaviour;
mod exports;
mod library;
mod start;
