//! Files that are read whole: up to a size, so that a device or a wrong file does not fill memory.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Size limit of a file of commands, routes or flows, far above what is written by hand.
pub const TEXT_MAX: u64 = 256 << 20;

/// The bytes of a file of at most `most` bytes.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("the file is larger than {} MB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text of a file of at most [`TEXT_MAX`] bytes, without the byte-order mark that some programs begin it
/// with.
///
/// # Errors
/// When it cannot be read, is larger, or is no text: then with the line that is none. A zero byte is in no text,
/// but in what else would be read to its end first: images of disks, captures, what a file system lost.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = read(path, TEXT_MAX)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    if let Some(place) = bytes.iter().position(|&byte| byte == 0) {
        let line = bytes[..place].split(|&byte| byte == b'\n').count();
        let message = format!("line {line} has a zero byte: this is no text");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        let message = format!("line {line} is not UTF-8 text");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// How tables of numbers are read: with blanks around values, and lines of comment.
pub(crate) fn csv() -> csv::ReaderBuilder {
    let mut builder = csv::ReaderBuilder::new();
    builder.trim(csv::Trim::All).comment(Some(b'#'));
    builder
}

/// U+FEFF in UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let file = std::env::temp_dir().join(format!("ackwright-mark-{}", std::process::id()));
        for (bytes, text) in [(&b"\xef\xbb\xbf1,2"[..], "1,2"), (b"1,\xef\xbb\xbf", "1,\u{feff}")] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(read_text(&file).unwrap(), text);
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_zero_byte_is_no_text() {
        let file = std::env::temp_dir().join(format!("ackwright-zero-{}", std::process::id()));
        std::fs::write(&file, b"route\nadd\0\n\0").unwrap();
        let error = read_text(&file).unwrap_err();
        assert_eq!(error.to_string(), "line 2 has a zero byte: this is no text");
        std::fs::remove_file(&file).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "the file is larger than 1 MB");
        assert!(read_text(Path::new("/")).is_err());
    }
}
