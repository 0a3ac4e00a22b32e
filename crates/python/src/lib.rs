//! The laboratory as a Python module, `ackwright._native`: what `python/ackwright` is built on.
//!
//! | module | what it holds |
//! |---|---|
//! | `collect` | sweeps whose runs are made by other processes |
//! | `congestion` | congestion controls that are Python classes |
//! | `draft` | experiments that are edited, and read |
//! | `lent` | what methods of such classes are given |
//! | `run` | runs: without the interpreter's lock, with progress, stopped by signals |
//! | `runs` | what runs leave behind, as tables |
//! | `table` | tables, handed out as Arrow streams |
//! | `tools` | `drill`, `replay`, `ecmp`, `tc` |
//! | `viewer` | what `ackwright view` shows |
//! | `values` | Python's values as TOML, JSON as Python's values |
//! | `errors` | our errors as the exceptions of `ackwright.errors` |
//!
//! What a user sees is in Python: this crate holds only what needs the other crates. There is no `unsafe` in it: capsules and classes are PyO3's, streams arrow's.

#![expect(clippy::needless_pass_by_value, reason = "arguments come from Python as values")]

mod collect;
mod congestion;
mod draft;
mod errors;
mod lent;
mod run;
mod runs;
mod table;
mod tools;
mod values;
mod viewer;

/// The compiled half of the package.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::collect::Collection;
    #[pymodule_export]
    use crate::draft::{Checked, Draft};
    #[pymodule_export]
    use crate::lent::{Ack, Sample, Window};
    #[pymodule_export]
    use crate::runs::Runs;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::tools::{drill, ecmp, replay, tc};
    #[pymodule_export]
    use crate::viewer::{Viewer, export, view};

    /// The program, as its results name it.
    #[pymodule_export]
    const PROGRAM: &str = crate::run::PROGRAM;
}
