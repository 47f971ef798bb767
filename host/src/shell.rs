//! Commands as a user can paste them into a shell.

use std::borrow::Cow;

/// The words as one line, quoted where a shell would take them apart. A word that cannot be quoted, one
/// with a NUL, stands as it is: nobody can type it either.
pub fn line<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    // An equals sign means something to a shell in its first word only, which here is a program.
    let plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    let quoted = |word: &str| match word {
        "" => "''".to_owned(),
        word if word.chars().all(plain) => word.to_owned(),
        word => shlex::try_quote(word).map_or_else(|_| word.to_owned(), Cow::into_owned),
    };
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        assert_eq!(
            line(["delegate-doctor", "optimize", "net.py", "--min-gain", "1.5"]),
            "delegate-doctor optimize net.py --min-gain 1.5"
        );
        assert_eq!(line(["report", "my runs/it's"]), "report \"my runs/it's\"");
        assert_eq!(line(["report", "$(reboot)"]), "report '$(reboot)'");
        assert_eq!(line(["a\0b"]), "a\0b");
        assert_eq!(line(["optimize", "größe.py", "--resume=run", ""]), "optimize größe.py --resume=run ''");
    }
}
