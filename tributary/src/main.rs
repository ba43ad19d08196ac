//! tributary
fn main() {}
