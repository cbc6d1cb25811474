//! Files and functions that can be read at one go, and those that have a reason not to be.

use crate::lexer::only_code;
use crate::tree::File;

/// Lines of a file, at most.
pub const FILE_LINES: usize = 800;
/// Lines of a function, at most, from its `fn` to its last brace.
pub const FUNCTION_LINES: usize = 70;

/// What is longer, and is in no list: of files `(path, reason)`, of functions `(path::name,
/// reason)`. And what is in a list and is no longer, or no longer there.
pub fn findings(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
    let mut long = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        if lines > FILE_LINES {
            long.push((file.path.clone(), lines, FILE_LINES));
        }
        for (name, lines) in functions(file) {
            if lines > FUNCTION_LINES {
                long.push((format!("{}::{name}", file.path), lines, FUNCTION_LINES));
            }
        }
    }
    let is_allowed = |name: &str| allowed.iter().any(|(allowed, _)| *allowed == name);
    let mut findings: Vec<String> = long
        .iter()
        .filter(|(name, ..)| !is_allowed(name))
        .map(|(name, lines, most)| format!("{name}: {lines} lines, not {most}"))
        .collect();
    for (name, reason) in allowed {
        if !long.iter().any(|(long, ..)| long == name) {
            findings.push(format!(
                "{name}: no longer too long: needs no reason any more"
            ));
        }
        if reason.trim().is_empty() {
            findings.push(format!("{name}: listed without a reason"));
        }
    }
    findings
}

/// Functions with a body, and their lines.
fn functions(file: &File) -> Vec<(String, usize)> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = only_code(&file.text);
    let lines = |(name, text): (String, &str)| (name, text.lines().count());
    bodies(&code).into_iter().map(lines).collect()
}

/// Functions with a body: the name, and the text from `fn` to the last brace.
pub fn bodies(code: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !is_of_name(c));
        let name: String = code[at + 3..]
            .chars()
            .take_while(|c| is_of_name(*c))
            .collect();
        if !is_word || name.is_empty() {
            continue;
        }
        if let Some(body) = body(&code[at..]) {
            found.push((name, &code[at..at + body]));
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes of a function from its `fn` to the end of its body; none, if it has no body.
fn body(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' if brackets == 0 || braces > 0 => braces += 1,
            '}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of so many lines.
    fn function(lines: usize) -> String {
        format!(
            "pub fn long(a: [u8; {{ 1 }}]) -> u8 {{\n{}}}\n",
            "    a();\n".repeat(lines - 2)
        )
    }

    fn found(text: &str, allowed: &[(&str, &str)]) -> Vec<String> {
        findings(&[File::new("a.rs", text)], allowed)
    }

    #[test]
    fn a_function_of_71_lines_is_found() {
        assert_eq!(found(&function(FUNCTION_LINES), &[]), [""; 0]);
        let long = function(FUNCTION_LINES + 1);
        assert_eq!(found(&long, &[]), ["a.rs::long: 71 lines, not 70"]);
        assert_eq!(
            found(&format!("mod a {{\n{long}}}"), &[]).len(),
            1,
            "in a module"
        );
    }

    #[test]
    fn a_file_of_801_lines_is_found() {
        assert_eq!(found(&"// a\n".repeat(FILE_LINES), &[]), [""; 0]);
        let long = "// a\n".repeat(FILE_LINES + 1);
        assert_eq!(found(&long, &[]), ["a.rs: 801 lines, not 800"]);
        let script = findings(&[File::new("run", &"# a\n".repeat(FILE_LINES + 1))], &[]);
        assert_eq!(script, ["run: 801 lines, not 800"]);
    }

    #[test]
    fn a_reason_lets_it_be_but_not_for_ever() {
        let allowed = [("a.rs::long", "a table")];
        assert_eq!(found(&function(90), &allowed), [""; 0]);
        assert_eq!(found(&function(9), &allowed).len(), 1, "not long any more");
        assert_eq!(
            found(&function(90), &[("a.rs::long", " ")]).len(),
            1,
            "without a reason"
        );
        let elsewhere = [("b.rs::long", "another file's")];
        assert_eq!(found(&function(90), &elsewhere).len(), 2);
    }

    #[test]
    fn braces_in_texts_and_comments_do_not_count() {
        let text = format!(
            "fn a() {{\n    // }}\n    b(\"}}\", '}}');\n{}}}\n",
            "c();\n".repeat(80)
        );
        assert_eq!(found(&text, &[]), ["a.rs::a: 84 lines, not 70"]);
    }

    #[test]
    fn a_function_without_a_body_has_no_length() {
        let text = format!(
            "trait A {{\n    fn a(b: [u8; 2]);\n{}}}",
            "    // c\n".repeat(90)
        );
        assert_eq!(found(&text, &[]), [""; 0]);
    }
}
