//! How a word is typed so that the shell reads it as one.

/// The word, in quotes where it needs them.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("in.dat", "in.dat");
        check("", "''");
        check("a b", "'a b'");
        check("it's", r"'it'\''s'");
    }
}
