//! In FlashLight a function that may program flash says so where it is declared: it returns a
//! `Result`, in which a failure of the driver would be, or takes a `MayProgram`.

use crate::layers::SOURCES;
use crate::lexer::only_code;
use crate::sizes::bodies;
use crate::tree::File;

/// What is handed to a function that may program flash and returns no `Result`.
const TOKEN: &str = "MayProgram";

/// Functions that hand it on and do not say so themselves.
pub fn findings(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(SOURCES)) {
        let code = only_code(&file.text);
        // Unit tests program as they like.
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for (name, text) in bodies(code) {
            let (head, body) = text.split_once('{').unwrap_or((text, ""));
            let says_so = head.contains(TOKEN) || head.contains("-> Result<");
            if body.contains(TOKEN) && !says_so {
                let path = &file.path;
                findings.push(format!("{path}::{name}: may program, and does not say so"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        findings(&[File::new("device/flashlight/src/space/a.rs", text)])
    }

    #[test]
    fn who_hands_it_on_says_so() {
        let call = "store.invalidate(at, MayProgram);";
        assert_eq!(
            found(&format!("fn drop_it(&mut self) {{\n {call}\n}}")),
            ["device/flashlight/src/space/a.rs::drop_it: may program, and does not say so"]
        );
        assert_eq!(
            found(&format!("fn a(&mut self) -> Result<(), E> {{ {call} }}")),
            [""; 0]
        );
        assert_eq!(
            found(&format!("fn a(&mut self, _: MayProgram) {{ {call} }}")),
            [""; 0]
        );
        assert_eq!(
            found(&format!(
                "#[cfg(test)]\nmod tests {{\nfn a() {{ {call} }}\n}}"
            )),
            [""; 0]
        );
    }

    #[test]
    fn only_flashlight_has_it() {
        let text = "fn a() { b(MayProgram) }";
        assert_eq!(
            findings(&[File::new("device/jftl/src/a.rs", text)]),
            [""; 0]
        );
    }
}
