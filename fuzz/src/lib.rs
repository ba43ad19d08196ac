//! What fuzz targets need beyond a few lines.
#![forbid(unsafe_code)]

pub mod control;
