//! Compiles the `.proto` files with protox, so that nobody needs `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../../protos";
    let files = ["table.proto", "transaction.proto"];
    for file in files.iter().chain(&["file.proto"]) {
        println!("cargo:rerun-if-changed={protos}/{file}");
    }
    let descriptors = protox::compile(files, [protos])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .extern_path(".lance.file", "::glaive_file::proto::lance::file")
        .include_file("protos.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
