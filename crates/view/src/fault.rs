//! What is missing or broken.

/// Why something cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not there, or never was.
    Missing(String),
    /// It is there, but not what it should be.
    Broken(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Missing(text) | Self::Broken(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Fault {}
