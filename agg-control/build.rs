//! Generates the gRPC code from the `.proto` file. protox parses it in Rust, so no `protoc` has to be installed.

use std::error::Error;

const PROTO: &str = "proto/tributary/control/v1/control.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
