//! The preload library as programs meet it: which functions it stands in front of, and whether C
//! programs behave the same with it and without.

use test_start as _;

mod behaviour;
mod exports;
mod library;
mod start;
mod unwound;
