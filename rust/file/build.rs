//! Compiles the `.proto` files with protox, so that nobody needs `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../../protos";
    let files = [
        "file.proto",
        "file2.proto",
        "encodings.proto",
        "encodings21.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={protos}/{file}");
    }
    let descriptors = protox::compile(files, [protos])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .include_file("protos.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
