//! Compiles the `.proto` files of `proto/` into messages and stubs. It needs no installed protobuf compiler, because
//! `protox` is one in Rust.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let folder = Path::new(ROOT).join("doublet/v1");
    let files: BTreeSet<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let set = protox::compile(files, [ROOT])?;
    let mut methods = String::from("&[\n");
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            writeln!(methods, "    \"/doublet.v1.{}/{}\",", service.name(), method.name())?;
        }
    }
    methods.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("methods.rs"), methods)?;
    std::fs::write(out.join("shapes.rs"), field_tables(&set)?)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .codec_path("crate::codec::MeasuringCodec")
        .compile_fds(set)?;
    Ok(())
}

/// Generates the tables for `src/shape.rs`: the fields of each message, the request message of each call, and which
/// messages are replies.
fn field_tables(set: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut messages = Vec::new();
    for file in &set.file {
        for message in &file.message_type {
            collect_messages(&format!(".{}", file.package()), message, &mut messages);
        }
    }
    let index_of = |name: &str| {
        let found = messages.iter().position(|(other, _)| other == name);
        found.ok_or_else(|| format!("{name} is used but not defined"))
    };
    let mut text = String::from("const SHAPES: &[&[(u32, WireKind)]] = &[\n");
    for (name, message) in &messages {
        write!(text, "    // {name}\n    &[")?;
        for field in &message.field {
            write!(text, "({}, {}), ", field.number(), wire_kind(field, index_of)?)?;
        }
        text.push_str("],\n");
    }
    text.push_str("];\n\nconst REQUESTS: &[(&str, usize)] = &[\n");
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            let index = index_of(method.input_type())?;
            writeln!(text, "    (\"/doublet.v1.{}/{}\", {index}),", service.name(), method.name())?;
        }
    }
    text.push_str("];\n");
    let calls = || set.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
    let replies: BTreeSet<&str> = calls().map(|method| method.output_type()).collect();
    let requests: BTreeSet<&str> = calls().map(|method| method.input_type()).collect();
    for name in replies.union(&requests) {
        let shape = match replies.contains(name) {
            true => format!("Some({})", index_of(name)?),
            false => "None".to_owned(),
        };
        let path = name.replace(".doublet.v1.", "crate::v1::");
        writeln!(text, "impl crate::codec::CallMessage for {path} {{ const REPLY_SHAPE: Option<usize> = {shape}; }}")?;
    }
    Ok(text)
}

/// Collects a message and its nested messages under their full names.
fn collect_messages<'a>(scope: &str, message: &'a DescriptorProto, into: &mut Vec<(String, &'a DescriptorProto)>) {
    let name = format!("{scope}.{}", message.name());
    for inner in &message.nested_type {
        collect_messages(&name, inner, into);
    }
    into.push((name, message));
}

/// Returns the wire format of a field, as an expression for `src/shape.rs`.
fn wire_kind(
    field: &FieldDescriptorProto,
    index_of: impl Fn(&str) -> Result<usize, String>,
) -> Result<String, Box<dyn Error>> {
    Ok(match field.r#type() {
        Type::Message => format!("WireKind::Message({})", index_of(field.type_name())?),
        Type::Group => return Err("groups are not supported".into()),
        Type::String | Type::Bytes => "WireKind::Bytes".to_owned(),
        Type::Double | Type::Fixed64 | Type::Sfixed64 => "WireKind::Fixed(8)".to_owned(),
        Type::Float | Type::Fixed32 | Type::Sfixed32 => "WireKind::Fixed(4)".to_owned(),
        _ => "WireKind::Varint".to_owned(),
    })
}
