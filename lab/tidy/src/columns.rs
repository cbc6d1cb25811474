//! No comment line is longer than a screen is wide.

use crate::lexer::{Kind, kinds};
use crate::tree::File;

/// Columns of a comment line, at most; rustfmt holds code to the same.
pub const COLUMNS: usize = 100;

/// Comment lines that are too long. Comments behind code are rustfmt's.
pub fn findings(files: &[File]) -> Vec<String> {
    files.iter().flat_map(long_lines).collect()
}

fn long_lines(file: &File) -> Vec<String> {
    let kinds = if file.is_rust() {
        kinds(&file.text)
    } else {
        Vec::new()
    };
    let mut findings = Vec::new();
    let mut at = 0;
    for (number, line) in (1..).zip(file.text.split('\n')) {
        let first = at + (line.len() - line.trim_start().len());
        let is_comment = match kinds.get(first) {
            Some(kind) => *kind == Kind::Comment,
            None => line.trim_start().starts_with('#'),
        };
        let columns = line.chars().count();
        if is_comment && columns > COLUMNS {
            let path = &file.path;
            findings.push(format!("{path}:{number}: {columns} columns, not {COLUMNS}"));
        }
        at += line.len() + 1;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        findings(&[File::new(path, text)])
    }

    #[test]
    fn a_comment_line_of_101_columns_is_found() {
        for mark in ["//", "///", "    //!"] {
            let most = format!("{mark} {}", "x".repeat(COLUMNS - mark.len() - 1));
            assert_eq!(found("a.rs", &format!("fn a() {{}}\n{most}\n")), [""; 0]);
            let long = found("a.rs", &format!("fn a() {{}}\n{most}x\n"));
            assert_eq!(long, ["a.rs:2: 101 columns, not 100"]);
        }
        let script = found("run", &format!("#!/bin/sh\n# {}", "x".repeat(COLUMNS)));
        assert_eq!(script, ["run:2: 102 columns, not 100"]);
    }

    #[test]
    fn a_long_text_or_line_of_code_is_no_comment() {
        let slashes = "/".repeat(COLUMNS);
        assert_eq!(
            found("a.rs", &format!("const A: &str = \"\n//{slashes}\";")),
            [""; 0]
        );
        assert_eq!(found("a.py", &format!("a = '{slashes}'")), [""; 0]);
    }

    #[test]
    fn columns_are_characters_not_bytes() {
        assert_eq!(found("a.rs", &format!("// {}", "é".repeat(90))), [""; 0]);
    }
}
