//! Patterns in rules: `*` stands for any run of characters (also `/`), `?` for one.

/// Whether `pattern` matches the whole of `text`. Linear in practice: only the last `*` is retried.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    p = after;
                    t = from + 1;
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("*.dat", "/data/a.dat", true),
            ("*.dat", "/data/a.dat.old", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxbxx", false),
            ("seqcopy", "seqcopy", true),
            ("seqcopy", "seqcopy2", false),
            ("*aab", "aaaaab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
