//! What may be seen, for people.

use super::{Entry, Model, State};

fn state_text(state: &State) -> String {
    let digest = state.digest as u32;
    format!(
        "{} bytes ({digest:08x}), {}",
        state.size,
        state.attrs.text()
    )
}

impl Model {
    /// What may be seen now: of each directory the sets of names, of each file the states.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.list_dir(0, "", &mut out);
        out
    }

    fn list_dir(&self, d: usize, at: &str, out: &mut Vec<String>) {
        let dir = &self.dirs[d];
        out.push(format!("{at}/ with one of these sets of names"));
        for (op, names) in dir.names.may_be_seen() {
            let unsure = if self.at_work && *op == self.op {
                " (the operation at work)"
            } else {
                ""
            };
            let names: Vec<&str> = names.keys().map(String::as_str).collect();
            out.push(format!("    {{{}}}{unsure}", names.join(", ")));
        }
        out.push(format!("{at}/ with one of these attributes"));
        for (_, attrs) in dir.attrs.may_be_seen() {
            out.push(format!("    {}", attrs.text()));
        }
        // What any of the sets names, once.
        let mut listed = Vec::new();
        for (_, names) in dir.names.may_be_seen() {
            for (name, entry) in names {
                if !listed.contains(&(name, *entry)) {
                    listed.push((name, *entry));
                }
            }
        }
        for (name, entry) in listed {
            match entry {
                Entry::Dir(d) => self.list_dir(d, &format!("{at}/{name}"), out),
                Entry::File(f) => {
                    out.push(format!("{at}/{name} as one of"));
                    for (_, state) in self.files[f].states.may_be_seen() {
                        out.push(format!("    {}", state_text(state)));
                    }
                }
            }
        }
    }
}
