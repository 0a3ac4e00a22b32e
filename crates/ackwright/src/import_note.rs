//! What `--import-kernel` could not take over.

/// Something about the import that its reader should know.
pub struct Note {
    /// What.
    pub text: String,
    /// It matters whatever is asked.
    pub always: bool,
}
