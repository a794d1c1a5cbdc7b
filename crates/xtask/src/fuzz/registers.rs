//! The registers of a process that ptrace has stopped: where it is; at a system call, its number, its
//! arguments, its result.
#![allow(unsafe_code)]

use std::ffi::c_long;
use std::io::Error;

/// What `PTRACE_GETREGSET` calls the general registers (`NT_PRSTATUS` of elf.h).
const GENERAL: usize = 1;

/// The registers of a stopped process.
#[derive(Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    /// Reads them.
    ///
    /// # Errors
    /// The process is not stopped, or not ours.
    pub fn of(pid: i32) -> Result<Registers, String> {
        // SAFETY: all zeros is a value of this type.
        let mut registers = Registers(unsafe { std::mem::zeroed() });
        set(libc::PTRACE_GETREGSET, pid, GENERAL, &mut registers.0)?;
        Ok(registers)
    }

    /// Writes them back.
    ///
    /// # Errors
    /// As [`Registers::of`].
    pub fn write(mut self, pid: i32) -> Result<(), String> {
        set(libc::PTRACE_SETREGSET, pid, GENERAL, &mut self.0)
    }
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub fn number(&self) -> c_long {
        self.0.orig_rax as c_long
    }

    /// The address of the next instruction.
    pub fn place(&self) -> u64 {
        self.0.rip
    }

    /// The first argument.
    pub fn first(&self) -> u64 {
        self.0.rdi
    }

    /// The third argument.
    pub fn third(&mut self) -> &mut u64 {
        &mut self.0.rdx
    }

    pub fn set_result(&mut self, result: i64) {
        self.0.rax = result as u64;
    }

    /// Lets the process make no system call after all.
    pub fn skip(&mut self, _pid: i32) -> Result<(), String> {
        self.0.orig_rax = u64::MAX;
        Ok(())
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    pub fn number(&self) -> c_long {
        self.0.regs[8] as c_long
    }

    /// The address of the next instruction.
    pub fn place(&self) -> u64 {
        self.0.pc
    }

    /// The first argument.
    pub fn first(&self) -> u64 {
        self.0.regs[0]
    }

    /// The third argument.
    pub fn third(&mut self) -> &mut u64 {
        &mut self.0.regs[2]
    }

    pub fn set_result(&mut self, result: i64) {
        self.0.regs[0] = result as u64;
    }

    /// Lets the process make no system call after all: its number is no general register here
    /// (`NT_ARM_SYSTEM_CALL` of elf.h).
    pub fn skip(&mut self, pid: i32) -> Result<(), String> {
        const NUMBER: usize = 0x404;
        set(libc::PTRACE_SETREGSET, pid, NUMBER, &mut -1i32)
    }
}

/// Reads or writes one set of registers.
fn set<T>(request: libc::c_uint, pid: i32, which: usize, value: &mut T) -> Result<(), String> {
    let mut place =
        libc::iovec { iov_base: (&raw mut *value).cast(), iov_len: std::mem::size_of::<T>() };
    // SAFETY: the kernel reads or writes as many bytes as the value has, while we borrow it.
    match unsafe { libc::ptrace(request, pid, which, &raw mut place) } {
        0 => Ok(()),
        _ => Err(format!("registers of {pid}: {}", Error::last_os_error())),
    }
}
