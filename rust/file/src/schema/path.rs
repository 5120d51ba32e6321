//! Paths to nested fields: names joined by dots; a name with a dot, space or back-quote stands in back-quotes.

/// Splits a path into names. `None` if it is malformed: an empty name or an unclosed quote.
///
/// Inside quotes a doubled back-quote stands for one.
pub fn parse_path(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = path;
    loop {
        let (name, tail) = match rest.strip_prefix('`') {
            Some(quoted) => take_quoted(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let (name, tail) = rest.split_at(end);
                (name.to_string(), tail)
            }
        };
        if name.is_empty() {
            return None;
        }
        names.push(name);
        match tail.strip_prefix('.') {
            Some(next) => rest = next,
            None if tail.is_empty() => return Some(names),
            None => return None,
        }
    }
}

/// The name up to the closing quote, and what follows it.
fn take_quoted(mut rest: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    loop {
        let (part, tail) = rest.split_once('`')?;
        name.push_str(part);
        match tail.strip_prefix('`') {
            Some(next) => {
                name.push('`');
                rest = next;
            }
            None => return Some((name, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_path;

    #[test]
    fn paths() {
        let parse = |path| parse_path(path).map(|names| names.join("|"));
        assert_eq!(parse("a").as_deref(), Some("a"));
        assert_eq!(parse("a.b c.d").as_deref(), Some("a|b c|d"));
        assert_eq!(parse("a.`b.c`").as_deref(), Some("a|b.c"));
        assert_eq!(parse("`a``b`.c").as_deref(), Some("a`b|c"));
        for bad in ["", "a.", ".a", "a..b", "`a", "`a`b", "``"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
