//! Numbers in decimal digits, as the kernel's files have them, and the names of these files.

/// A number in decimal digits, as the kernel's files have them.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

/// A name in /proc: a string that ends with zero.
pub type InProc = [u8; 40];

/// The name in /proc with a number in it, which is not negative.
pub fn in_proc(before: &[u8], number: i32, after: &[u8]) -> InProc {
    let mut path = [0; 40];
    path[..before.len()].copy_from_slice(before);
    let mut digits = [0u8; 10];
    let (mut rest, mut at) = (number as u32, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 || at == 0 {
            break;
        }
    }
    let digits = &digits[at..];
    let end = before.len() + digits.len();
    path[before.len()..end].copy_from_slice(digits);
    path[end..end + after.len()].copy_from_slice(after);
    path
}
