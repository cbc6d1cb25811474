//! Which functions of the kernel are which flash operations.
//!
//! All five are exported by `drivers/mtd/nand/raw/nand_base.c` (Linux 4.16 and later) for the use
//! of drivers, so that they are never inlined away. Their second argument is the address.

/// A kind of flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads a page, or a part of its data.
    PageRead,
    /// Reads spare bytes alone.
    SpareRead,
    /// Programs a page.
    PageProgram,
    /// Programs spare bytes alone.
    SpareProgram,
    /// Erases a block.
    BlockErase,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [
        Kind::PageRead,
        Kind::SpareRead,
        Kind::PageProgram,
        Kind::SpareProgram,
        Kind::BlockErase,
    ];

    /// As logs and figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::PageRead => "page_read",
            Kind::SpareRead => "spare_read",
            Kind::PageProgram => "page_program",
            Kind::SpareProgram => "spare_program",
            Kind::BlockErase => "block_erase",
        }
    }

    fn function(self) -> &'static str {
        match self {
            Kind::PageRead => "nand_read_page_op",
            Kind::SpareRead => "nand_read_oob_op",
            Kind::PageProgram => "nand_prog_page_begin_op",
            Kind::SpareProgram => "nand_prog_page_op",
            Kind::BlockErase => "nand_erase_op",
        }
    }

    /// Name of the event of monitor `id`. The kernel's list of hits shows events without their
    /// groups, so the name alone must tell monitors apart.
    pub fn event(self, id: u32) -> String {
        format!("{}_{id}", self.name())
    }

    /// A line for `kprobe_events`.
    pub fn definition(self, id: u32) -> String {
        let address = match self {
            Kind::BlockErase => "block",
            _ => "page",
        };
        format!(
            "p:{}/{} {} chip=$arg1:x64 {address}=$arg2:u32",
            group(id),
            self.event(id),
            self.function()
        )
    }
}

/// Group of the events of monitor `id`, and name of its tracing instance.
pub fn group(id: u32) -> String {
    format!("flashmon_{id}")
}

/// The monitors that a list of probes tells of.
pub fn ids(kprobe_events: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = kprobe_events
        .lines()
        .filter_map(|line| line.strip_prefix("p:flashmon_"))
        .filter_map(|rest| rest.split('/').next()?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Whether a kernel with these symbols (the text of `/proc/kallsyms`) has them all.
pub fn functions_exist(kallsyms: &str) -> bool {
    let has = |function| {
        let mut names = kallsyms
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2));
        names.any(|name| name == function)
    };
    Kind::ALL.iter().all(|kind| has(kind.function()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_names_its_monitor() {
        let definition = Kind::BlockErase.definition(7);
        assert_eq!(
            definition,
            "p:flashmon_7/block_erase_7 nand_erase_op chip=$arg1:x64 block=$arg2:u32"
        );
        let listed = format!(
            "{definition}\n{}\np:kprobes/x y\n",
            Kind::PageRead.definition(12)
        );
        assert_eq!(ids(&listed), [7, 12]);
    }

    #[test]
    fn all_functions_are_needed() {
        let line = |kind: &Kind| format!("0000000000000000 t {}\t[nand]\n", kind.function());
        let all: String = Kind::ALL.iter().map(line).collect();
        assert!(functions_exist(&all));
        assert!(!functions_exist(
            &all.replace("nand_erase_op", "nand_erase_nand")
        ));
        assert!(!functions_exist(""));
    }
}
