//! Copying between the program's memory and ours.
//!
//! The program may hand over a bad address: natively that is EFAULT, so it must be here too. All
//! copies go through one routine (in `arch`) whose instructions lie between two labels; the fault handler
//! (see `fault`) recognises an instruction pointer in between and lets the routine return 1.
#![allow(unsafe_code)]

pub use crate::arch::copy;

unsafe extern "C" {
    static sweetspot_copy_begin: u8;
    static sweetspot_copy_fault: u8;
}

/// Whether a fault at this instruction is a bad address of the program's: then where to go on.
pub fn landing(instruction: usize) -> Option<usize> {
    let (begin, fault) = (&raw const sweetspot_copy_begin, &raw const sweetspot_copy_fault);
    (begin as usize..fault as usize).contains(&instruction).then_some(fault as usize)
}
