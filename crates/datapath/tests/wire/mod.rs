//! Laws that hold for any bytes: the property tests and the fuzz targets share them.

pub mod frame;
pub mod options;
