//! Sockets, and what asks the network by itself. `sendmsg` and its kin are in `transfer`, because
//! they pass descriptors.

use core::ffi::{c_char, c_int, c_uint};

use super::Pointer;
use crate::engine::{deaths, handlers};
use crate::front::dispatch;

// Whether somebody answers, or has an address, tells that he lives.
learns_of_deaths! {
    fn connect(fd: c_int, address: Pointer, len: c_uint);
    fn __connect(fd: c_int, address: Pointer, len: c_uint);
    fn bind(fd: c_int, address: Pointer, len: c_uint);
    fn listen(fd: c_int, waiting: c_int);
}

// Whether there is anybody at the other end.
may_tell_of_deaths! {
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getpeername(fd: c_int, into: Pointer, len: Pointer) -> c_int;
}

hook! {
    fn getsockopt(fd: c_int, level: c_int, name: c_int, into: Pointer, len: Pointer) -> c_int, next => {
        // A descriptor of the process at the other end; libc has no name for it.
        const SO_PEERPIDFD: c_int = 77;
        let pass = dispatch::public_sync_point();
        let answer = next(fd, level, name, into, len);
        if answer == 0 && (level, name) == (libc::SOL_SOCKET, SO_PEERPIDFD) {
            // The kernel writes no more than it is given room for.
            let len = handlers::peek(len.cast::<libc::socklen_t>());
            let fd = handlers::peek(into.cast::<c_int>());
            if let (Some(fd), true) = (fd, len == Some(size_of::<c_int>() as _)) {
                dispatch::made(fd);
            }
            deaths::descriptor_made();
        }
        // The error that a transfer would have met.
        deaths::may_have_learned();
        pass.done();
        answer
    }
}

/// Functions that transfer something: where nothing came, or an error, who was at the other end may be dead.
macro_rules! transfers {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> isize;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> isize, next => {
            let pass = dispatch::public_sync_point();
            let answer = next($($arg),*);
            if answer <= 0 {
                deaths::learned();
            }
            pass.done();
            answer
        }
    })*};
}
transfers! {
    fn send(fd: c_int, bytes: Pointer, len: usize, flags: c_int) -> isize;
    fn __send(fd: c_int, bytes: Pointer, len: usize, flags: c_int) -> isize;
    fn sendto(
        fd: c_int, bytes: Pointer, len: usize, flags: c_int, address: Pointer,
        address_len: c_uint
    ) -> isize;
    fn recv(fd: c_int, into: Pointer, len: usize, flags: c_int) -> isize;
    fn __recv_chk(fd: c_int, into: Pointer, len: usize, size: usize, flags: c_int) -> isize;
    fn recvfrom(
        fd: c_int, into: Pointer, len: usize, flags: c_int, address: Pointer,
        address_len: Pointer
    ) -> isize;
    fn __recvfrom_chk(
        fd: c_int, into: Pointer, len: usize, size: usize, flags: c_int, address: Pointer,
        address_len: Pointer
    ) -> isize;
}

public_sync_point! {
    fn bindresvport(fd: c_int, address: Pointer) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: Pointer, len: c_uint) -> c_int;
    fn getsockname(fd: c_int, into: Pointer, len: Pointer) -> c_int;
    fn sockatmark(fd: c_int) -> c_int;
    fn getipv4sourcefilter(
        fd: c_int, interface: c_uint, group: c_uint, mode: Pointer, count: Pointer, list: Pointer
    ) -> c_int;
    fn setipv4sourcefilter(
        fd: c_int, interface: c_uint, group: c_uint, mode: c_uint, count: c_uint, list: Pointer
    ) -> c_int;
    fn getsourcefilter(
        fd: c_int, interface: c_uint, group: Pointer, len: c_uint, mode: Pointer, count: Pointer,
        list: Pointer
    ) -> c_int;
    fn setsourcefilter(
        fd: c_int, interface: c_uint, group: Pointer, len: c_uint, mode: c_uint, count: c_uint,
        list: Pointer
    ) -> c_int;

    fn getaddrinfo(
        name: *const c_char, service: *const c_char, hints: Pointer, into: Pointer
    ) -> c_int;
    fn gai_suspend(list: Pointer, count: c_int, timeout: Pointer) -> c_int;
    fn gai_error(request: Pointer) -> c_int;
    fn gai_cancel(request: Pointer) -> c_int;
    fn getnameinfo(
        address: Pointer, len: c_uint, host: Pointer, host_len: c_uint, service: Pointer,
        service_len: c_uint, flags: c_int
    ) -> c_int;
    fn getifaddrs(into: Pointer) -> c_int;
    fn if_nametoindex(name: *const c_char) -> c_uint;
    fn if_indextoname(index: c_uint, into: Pointer) -> Pointer;
    fn if_nameindex() -> Pointer;
    fn __res_init() -> c_int;
    fn __res_ninit(state: Pointer) -> c_int;
    fn __res_nclose(state: Pointer) -> ();
    fn res_query(
        name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn __res_query(
        name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn res_search(
        name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn __res_search(
        name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn res_querydomain(
        name: *const c_char, domain: *const c_char, class: c_int, kind: c_int, into: Pointer,
        len: c_int
    ) -> c_int;
    fn __res_querydomain(
        name: *const c_char, domain: *const c_char, class: c_int, kind: c_int, into: Pointer,
        len: c_int
    ) -> c_int;
    fn res_send(query: Pointer, query_len: c_int, into: Pointer, len: c_int) -> c_int;
    fn __res_send(query: Pointer, query_len: c_int, into: Pointer, len: c_int) -> c_int;
    fn res_nquery(
        state: Pointer, name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn __res_nquery(
        state: Pointer, name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn res_nsearch(
        state: Pointer, name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn __res_nsearch(
        state: Pointer, name: *const c_char, class: c_int, kind: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn res_nquerydomain(
        state: Pointer, name: *const c_char, domain: *const c_char, class: c_int, kind: c_int,
        into: Pointer, len: c_int
    ) -> c_int;
    fn __res_nquerydomain(
        state: Pointer, name: *const c_char, domain: *const c_char, class: c_int, kind: c_int,
        into: Pointer, len: c_int
    ) -> c_int;
    fn res_nsend(
        state: Pointer, query: Pointer, query_len: c_int, into: Pointer, len: c_int
    ) -> c_int;
    fn __res_nsend(
        state: Pointer, query: Pointer, query_len: c_int, into: Pointer, len: c_int
    ) -> c_int;

    fn rcmd(
        host: Pointer, port: c_uint, local: Pointer, remote: Pointer, command: Pointer,
        errors: Pointer
    ) -> c_int;
    fn rcmd_af(
        host: Pointer, port: c_uint, local: Pointer, remote: Pointer, command: Pointer,
        errors: Pointer, family: c_uint
    ) -> c_int;
    fn rexec(
        host: Pointer, port: c_int, user: Pointer, password: Pointer, command: Pointer,
        errors: Pointer
    ) -> c_int;
    fn rexec_af(
        host: Pointer, port: c_int, user: Pointer, password: Pointer, command: Pointer,
        errors: Pointer, family: c_uint
    ) -> c_int;
    fn ruserok(host: Pointer, root: c_int, remote: Pointer, local: Pointer) -> c_int;
    fn ruserok_af(
        host: Pointer, root: c_int, remote: Pointer, local: Pointer, family: c_uint
    ) -> c_int;
    fn iruserok(address: c_uint, root: c_int, remote: Pointer, local: Pointer) -> c_int;
    fn iruserok_af(
        address: Pointer, root: c_int, remote: Pointer, local: Pointer, family: c_uint
    ) -> c_int;
    fn rtime(server: Pointer, into: Pointer, timeout: Pointer) -> c_int;
    fn ruserpass(host: Pointer, name: Pointer, password: Pointer) -> c_int;
}

makes! {
    fn rresvport(port: Pointer);
    fn rresvport_af(port: Pointer, family: c_uint);
}
