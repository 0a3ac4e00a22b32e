//! Files that are read whole: up to a size, so that a device or a wrong file does not fill memory.

use flate2::bufread::MultiGzDecoder;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
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
    within(&bytes, most)?;
    Ok(bytes)
}

fn within(bytes: &[u8], most: u64) -> io::Result<()> {
    if bytes.len() as u64 <= most {
        return Ok(());
    }
    let message = format!("the file is larger than {} MB", most >> 20);
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

/// A file that may be compressed with gzip, unpacked. It is opened only once, so it may be a pipe.
///
/// # Errors
/// When it cannot be read.
pub fn open_unpacked(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let (head, file) =
        split_head(BufReader::with_capacity(1 << 16, File::open(path)?), GZIP.len())?;
    let is_packed = head == GZIP;
    let whole = io::Cursor::new(head).chain(file);
    if is_packed {
        Ok(Box::new(BufReader::new(MultiGzDecoder::new(whole))))
    } else {
        Ok(Box::new(whole))
    }
}

/// The first `len` bytes, or fewer if there are no more, and what comes behind them.
pub(crate) fn split_head<R: Read>(mut from: R, len: usize) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::new();
    from.by_ref().take(len as u64).read_to_end(&mut head)?;
    Ok((head, from))
}

/// Opens one of the files that results consist of.
///
/// # Errors
/// When it cannot be read, or is no regular file: a pipe or a device in its place may never end.
pub fn open_result(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file"))
    }
}

/// The text of such a file.
///
/// # Errors
/// Likewise, or when it is not UTF-8.
pub fn read_result(path: &Path) -> io::Result<String> {
    io::read_to_string(open_result(path)?)
}

/// The text of a file of at most [`TEXT_MAX`] bytes, without the byte-order mark that some programs begin it
/// with.
///
/// # Errors
/// As of [`text`].
pub fn read_text(path: &Path) -> io::Result<String> {
    text(File::open(path)?, TEXT_MAX)
}

/// The text of at most `most` bytes that comes from `from`, likewise.
///
/// # Errors
/// When it cannot be read, is larger, or is no text: then with the line that is none. Nothing is read behind a zero
/// byte, which is in no text, but in images of disks, captures, devices, what a file system lost.
pub fn text(from: impl Read, most: u64) -> io::Result<String> {
    let mut from = from.take(most + 1);
    let mut bytes = Vec::new();
    loop {
        let begin = bytes.len();
        if from.by_ref().take(PIECE).read_to_end(&mut bytes)? == 0 {
            break;
        }
        if let Some(place) = bytes[begin..].iter().position(|&byte| byte == 0) {
            let line = bytes[..begin + place].split(|&byte| byte == b'\n').count();
            let message = format!("line {line} has a zero byte: this is no text");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
    within(&bytes, most)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
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

/// What gzip's files begin with (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes that are looked at before more are read.
const PIECE: u64 = 1 << 20;
/// U+FEFF in UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let file = std::env::temp_dir().join(format!("ackwright-mark-{}", std::process::id()));
        for (bytes, text) in [(&b"\xef\xbb\xbf1,2"[..], "1,2"), (b"1,\xef\xbb\xbf", "1,\u{feff}")] {
            fs::write(&file, bytes).unwrap();
            assert_eq!(read_text(&file).unwrap(), text);
        }
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_zero_byte_is_no_text() {
        let file = std::env::temp_dir().join(format!("ackwright-zero-{}", std::process::id()));
        fs::write(&file, b"route\nadd\0\n\0").unwrap();
        let error = read_text(&file).unwrap_err();
        assert_eq!(error.to_string(), "line 2 has a zero byte: this is no text");
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_zero_byte_far_behind_is_named_by_its_line() {
        let mut bytes = "x\n".repeat(PIECE as usize).into_bytes();
        bytes.push(0);
        let error = text(&bytes[..], TEXT_MAX).unwrap_err();
        assert_eq!(error.to_string(), "line 1048577 has a zero byte: this is no text");
        let length = bytes.len() as u64 - 1;
        assert_eq!(text(&bytes[..length as usize], length).unwrap().len() as u64, length);
        let error = text(&bytes[..length as usize], length - 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_packed_is_unpacked_and_opened_once() {
        let file = std::env::temp_dir().join(format!("ackwright-gzip-{}", std::process::id()));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, b"one").unwrap();
        let twice = packed.finish().unwrap().repeat(2);
        for (bytes, plain) in
            [(&twice[..], "oneone"), (b"plain", "plain"), (b"\x1f", "\x1f"), (b"", "")]
        {
            fs::write(&file, bytes).unwrap();
            assert_eq!(io::read_to_string(open_unpacked(&file).unwrap()).unwrap(), plain);
        }
        fs::remove_file(&file).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_device_is_no_result() {
        let pipe = std::env::temp_dir().join(format!("ackwright-no-result-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, Path::new("/dev/zero"), Path::new("/")] {
            let error = read_result(path).unwrap_err();
            assert_eq!(error.to_string(), "this is not a regular file", "{}", path.display());
        }
        fs::remove_file(&pipe).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "the file is larger than 1 MB");
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "line 1 has a zero byte: this is no text");
        assert!(read_text(Path::new("/")).is_err());
    }
}
