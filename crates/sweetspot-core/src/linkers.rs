//! Dynamic linkers, by the names of their files: which C library does a program have?

/// Names of glibc's (of Debian, of the Linux Standard Base, of other machines, with a version, as a
/// link) and of musl's.
const KNOWN: [&[u8]; 6] = [b"ld-linux", b"ld-musl-", b"ld-lsb", b"ld.so.", b"ld64.so.", b"ld-2."];

/// Whether the dynamic linker at this path is one of a C library that the preload library knows. A zero
/// ends the path.
#[inline(always)]
pub fn is_known(path: &[u8]) -> bool {
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    KNOWN.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_linkers() {
        let check = |path: &str, expected: bool| {
            assert_eq!(is_known(path.as_bytes()), expected, "{path}");
        };
        check("/lib64/ld-linux-x86-64.so.2", true);
        check("/lib64/ld-linux-x86-64.so.2\0more", true);
        check("/lib/ld-linux-aarch64.so.1\0", true);
        check("/gnu/store/abc-glibc-2.35/lib/ld-linux-x86-64.so.2", true);
        check("/lib64/ld-lsb-x86-64.so.3", true);
        check("/lib/ld-musl-x86_64.so.1", true);
        check("/lib/ld-2.31.so", true);
        check("/lib/ld64-uClibc.so.1", false);
        check("/system/bin/linker64", false);
        check("/ld-linux/other", false);
        check("", false);
    }
}
