//! Which names tags and branches may have (format chapter 30, 14).
//!
//! Letters are ASCII: pylance takes others and then cannot list its refs any more.

use glaive_file::{Error, Result};

use super::MAIN;

fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

fn invalid(why: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("Ref is invalid: {why}"))
}

/// Checks the name of a tag.
///
/// # Errors
/// Invalid input that says which rule is broken.
pub fn check_tag_name(name: &str) -> Result<()> {
    let broken = if name.is_empty() {
        "Ref cannot be empty"
    } else if !is_plain(name) {
        "Ref characters must be either alphanumeric, '.', '-' or '_'"
    } else if name.starts_with('.') {
        "Ref cannot begin with a dot"
    } else if name.ends_with('.') {
        "Ref cannot end with a dot"
    } else if name.ends_with(".lock") {
        "Ref cannot end with .lock"
    } else if name.contains("..") {
        "Ref cannot have two consecutive dots"
    } else {
        return Ok(());
    };
    Err(invalid(broken))
}

/// Checks the name of a branch: segments like `dev/x`, each as a tag but for the rules of dots.
///
/// # Errors
/// Invalid input that says which rule is broken.
pub fn check_branch_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(invalid("Branch name cannot be empty"));
    }
    if name == MAIN {
        return Err(invalid(
            "\"main\" is reserved for the default branch; use a different branch name",
        ));
    }
    if name.starts_with('/') || name.ends_with('/') {
        return Err(invalid("Branch name cannot start or end with a '/'"));
    }
    if name.contains("//") {
        return Err(invalid("Branch name cannot contain consecutive '/'"));
    }
    if name.contains("..") || name.contains('\\') {
        return Err(invalid("Branch name cannot contain '..' or '\\'"));
    }
    if let Some(segment) = name
        .split('/')
        .find(|segment| !is_plain(segment) || *segment == ".")
    {
        return Err(invalid(format!(
            "Branch segment '{segment}' contains invalid characters. Only alphanumeric, '.', '-', '_' are allowed."
        )));
    }
    match name.ends_with(".lock") {
        true => Err(invalid("Branch name cannot end with '.lock'")),
        false => Ok(()),
    }
}
