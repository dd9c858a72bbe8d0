//! The Open Inference Protocol over HTTP with binary tensors, and bodies that are packed.

use std::io::{Read as _, Write as _};

use e2e::oip::{answer, binary, elements, infer, infer_binary, input, outputs, path};
use e2e::wire::Wire;
use e2e::{Host, Reply, component, model, root};
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};

/// A model that returns its input `x` as `y`, called `m`.
fn identity(datatype: &str, more: &[&str]) -> Host {
    let name = format!("identity_{}", datatype.to_lowercase());
    Host::with(None, Some(&model(&name)), &[&["--name", "m"], more].concat())
}

/// A request for everything in binary.
fn all_binary(inputs: Value) -> Value {
    json!({ "inputs": inputs, "parameters": { "binary_data_output": true } })
}

#[test]
fn every_bit_pattern_comes_back_as_it_went_in() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let cases: [(&str, i64, Vec<u8>); 14] = [
        ("BOOL", 2, vec![0, 1]),
        ("UINT8", 256, every_byte.clone()),
        ("UINT16", 128, every_byte.clone()),
        ("UINT32", 64, every_byte.clone()),
        ("UINT64", 32, every_byte.clone()),
        ("INT8", 256, every_byte.clone()),
        ("INT16", 128, every_byte.clone()),
        ("INT32", 64, every_byte.clone()),
        ("INT64", 32, every_byte.clone()),
        // Among them numbers that are none, which JSON cannot hold.
        ("FP16", 128, every_byte.clone()),
        ("BF16", 128, every_byte.clone()),
        ("FP32", 64, [&every_byte[..252], &[0, 0, 192, 127]].concat()),
        ("FP64", 32, every_byte),
        ("BYTES", 3, elements(&[b"", "hé".as_bytes(), b"three"])),
    ];
    for (datatype, count, data) in cases {
        let host = identity(datatype, &[]);
        // The JSON before it decides where a tensor begins, so it lies anywhere.
        for id in ["", "1", "12", "123"] {
            let mut request = all_binary(json!([binary("x", datatype, &[count], data.len())]));
            request["id"] = id.into();
            let reply = infer_binary(&host, "m", &request, &data);
            let (json, behind) = answer(&reply);
            let size = json!({ "binary_data_size": data.len() });
            let output = json!({ "name": "y", "datatype": datatype, "shape": [count], "parameters": size });
            assert_eq!((&json["outputs"], &json["id"]), (&json!([output]), &json!(id)), "{datatype}");
            assert_eq!(behind, data, "{datatype}");
            assert_eq!(reply.header("content-type"), Some("application/octet-stream"));
        }
    }
}

#[test]
fn json_and_binary_may_be_mixed() {
    let host = Host::with(None, Some(&model("rows")), &["--name", "m"]);
    let x = [1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    let text = elements(&[b"a", b"b"]);
    let inputs = json!([
        binary("x", "FP32", &[2, 2], x.len()),
        input("index", "INT64", &[2], json!([0, 2])),
        binary("text", "BYTES", &[2], text.len()),
    ]);
    let doubled = [2.0f32, 4.0, 6.0, 8.0].map(f32::to_le_bytes).concat();
    let behind = [x, text.clone()].concat();
    let output = |name: &str, datatype: &str, shape: Value, data: Value| json!({ "name": name, "datatype": datatype, "shape": shape, "data": data });
    let picked = output("picked", "FP32", json!([2]), json!([1.0, 3.0]));
    let y = output("y", "FP32", json!([2, 2]), json!(doubled));
    let wish = |name: &str, binary: bool| json!({ "name": name, "parameters": { "binary_data": binary } });

    let wishes = [wish("picked", false), wish("same", true), wish("y", true)];
    let reply = infer_binary(&host, "m", &json!({ "inputs": inputs, "outputs": wishes }), &behind);
    assert_eq!(outputs(&reply), json!([picked, output("same", "BYTES", json!([2]), json!(text)), y]));
    // What is said of one output wins over what is said of all.
    let wishes = [wish("picked", false), json!({ "name": "y" })];
    let all = json!({ "binary_data_output": true });
    let request = json!({ "inputs": inputs, "outputs": wishes, "parameters": all });
    assert_eq!(outputs(&infer_binary(&host, "m", &request, &behind)), json!([picked, y]));
    // JSON in, all of it binary out; and the other way round.
    let reply = infer_binary(&host, "m", &json!({ "inputs": inputs }), &behind);
    assert_eq!((reply.header("inference-header-content-length"), outputs(&reply)[1].clone()), (None, picked));
    let plain = json!([
        input("x", "FP32", &[2, 2], json!([1, 2, 3, 4])),
        input("index", "INT64", &[2], json!([0, 2])),
        input("text", "BYTES", &[2], json!(["a", "b"])),
    ]);
    let reply = infer(&host, "m", &all_binary(plain));
    assert_eq!(outputs(&reply)[0], y);
}

#[test]
fn tensors_of_a_handler_travel_in_binary_too() {
    let host = Host::with(Some(&component("tests/tensors")), None, &["--name", "m"]);
    let request = all_binary(json!([binary("s", "BYTES", &[1], 6)]));
    let reply = infer_binary(&host, "m", &request, &elements(&[b"hi"]));
    let parameters = elements(&[br#"{"binary_data_output":true}"#]);
    let expected = json!([
        { "name": "s", "datatype": "BYTES", "shape": [1], "data": elements(&[b"HI"]) },
        { "name": "parameters", "datatype": "BYTES", "shape": [1], "data": parameters },
    ]);
    assert_eq!(outputs(&reply), expected);
}

#[test]
fn large_tensors_arrive_whole() {
    let host = identity("fp32", &[]);
    for count in [1usize, 4096, 4097, 150_528, 2_000_000] {
        let data: Vec<u8> = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let request = all_binary(json!([binary("x", "FP32", &[i64::try_from(count).unwrap()], data.len())]));
        let reply = infer_binary(&host, "m", &request, &data);
        assert!(answer(&reply).1 == data, "{count}");
        assert_eq!(reply.header("content-length").unwrap(), reply.body.len().to_string());
    }
}

#[test]
fn bytes_that_are_no_text_are_asked_for_in_binary() {
    // The strings of ONNX Runtime are text; those of TensorFlow are not.
    let saved = root().join("tests/models/savedmodels/string_tf1");
    let host = Host::with(None, Some(&saved), &["--name", "m"]);
    let metadata = host.get("/v2/models/m").json();
    let name = metadata["inputs"][0]["name"].as_str().unwrap().to_owned();
    let data = elements(&[&[0xff, 0xfe]]);
    let ask = |binary_output: bool| {
        let inputs = [binary(&name, "BYTES", &[1], data.len())];
        let parameters = json!({ "binary_data_output": binary_output });
        infer_binary(&host, "m", &json!({ "inputs": inputs, "parameters": parameters }), &data)
    };
    let text = ask(false).error(400, "invalid_input", "post_inference");
    assert!(
        text.ends_with(
            "holds bytes that are not UTF-8, which JSON cannot hold; ask for it with `binary_data`"
        ),
        "{text}"
    );
    let found = outputs(&ask(true));
    assert!(found.as_array().unwrap().iter().any(|output| output["data"] == json!(data)), "{found}");
}

#[test]
fn a_body_without_json_is_the_only_input() {
    let host = identity("fp32", &[]);
    let post = |host: &Host, body: &[u8]| {
        host.request("POST", &path("m"), &[("inference-header-content-length", "0")], body)
    };
    let data = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
    let expected = json!([{ "name": "y", "datatype": "FP32", "shape": [2], "data": data }]);
    assert_eq!(outputs(&post(&host, &data)), expected);
    let text = post(&host, &data[..7]).error(400, "invalid_input", "admit");
    assert_eq!(text, "input `x`: 7 bytes do not say which shape of FP32 [N] it is");
    let two = Host::with(None, Some(&model("add")), &["--name", "m"]);
    post(&two, &data).error(400, "invalid_input", "admit");
}

#[test]
fn hostile_lengths_are_refused_and_nobody_else_notices() {
    let host = identity("fp32", &["--body", "64KiB"]);
    let two = |sizes: [&str; 2]| {
        let input = |name: &str, size: &str| {
            let start = format!(r#"{{"name":"{name}","datatype":"FP32","shape":[1],"parameters":{{"#);
            format!(r#"{start}"binary_data_size":{size}}}}}"#)
        };
        format!(r#"{{"inputs":[{},{}]}}"#, input("x", sizes[0]), input("z", sizes[1]))
    };
    let mut cases: Vec<(String, String)> = Vec::new();
    for sizes in [
        ["8", "4"],
        ["4", "8"],
        ["4", "3"],
        ["0", "0"],
        ["-4", "4"],
        ["4", "-1"],
        ["1e1", "4"],
        ["null", "4"],
        ["18446744073709551615", "9"],
        ["18446744073709551616", "4"],
        ["9223372036854775807", "9223372036854775807"],
    ] {
        let json = two(sizes);
        cases.push((json.len().to_string(), json));
    }
    let json = two(["4", "4"]);
    for length in [
        "-1",
        "1000000",
        "18446744073709551616",
        "",
        "a",
        "7",
        &(json.len() - 1).to_string(),
        &(json.len() + 1).to_string(),
    ] {
        cases.push((length.to_owned(), json.clone()));
    }
    let good = json!({ "inputs": [input("x", "FP32", &[1], json!([1]))] });
    for (length, json) in cases {
        let body = [json.as_bytes(), &[0; 8]].concat();
        let reply = host.request("POST", &path("m"), &[("inference-header-content-length", &length)], &body);
        assert_eq!(
            (reply.status, &reply.json()["code"]),
            (400, &json!("invalid_input")),
            "{length} {json}: {}",
            reply.text()
        );
        assert_eq!(infer(&host, "m", &good).status, 200);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn packed(host: &Host, path: &str, coding: &str, body: &[u8]) -> Reply {
    host.request("POST", path, &[("content-type", "application/json"), ("content-encoding", coding)], body)
}

#[test]
fn packed_bodies_are_unpacked_for_every_call() {
    let host = Host::with(Some(&component("tests/echo")), None, &["--name", "echo"]);
    for (coding, body) in
        [("gzip", gzip(b"\"hi\"")), ("x-gzip", gzip(b"\"hi\"")), ("deflate", deflate(b"\"hi\""))]
    {
        assert_eq!(packed(&host, "/echo", coding, &body).json()["body"], "\"hi\"", "{coding}");
    }
    assert_eq!(packed(&host, "/echo", "identity", b"\"hi\"").json()["body"], "\"hi\"");

    let host = identity("fp32", &[]);
    let data: Vec<u8> = (0..150_528).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let json = all_binary(json!([binary("x", "FP32", &[150_528], data.len())])).to_string();
    let body = [json.as_bytes(), &data].concat();
    let length = json.len().to_string();
    for (coding, packed) in [("gzip", gzip(&body)), ("deflate", deflate(&body))] {
        let mut headers = vec![("content-encoding", coding), ("inference-header-content-length", &length)];
        assert!(answer(&host.request("POST", &path("m"), &headers, &packed)).1 == data, "{coding}");
        // Packed answers are for those who ask.
        headers.push(("accept-encoding", coding));
        let mut reply = host.request("POST", &path("m"), &headers, &packed);
        assert_eq!(reply.header("content-encoding"), Some(coding));
        let mut unpacked = Vec::new();
        match coding {
            "gzip" => GzDecoder::new(&reply.body[..]).read_to_end(&mut unpacked).unwrap(),
            _ => ZlibDecoder::new(&reply.body[..]).read_to_end(&mut unpacked).unwrap(),
        };
        reply.body = unpacked;
        assert!(answer(&reply).1 == data, "{coding}");
    }
    // By weights, and an answer that could be packed says what it depends on.
    let headers = [("inference-header-content-length", &*length)];
    for (accepted, expected) in [
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("gzip;q=0.1, zstd;q=0.2, deflate;Q=0", Some("zstd")),
        ("gzip; q =0", None),
    ] {
        let headers = [headers[0], ("accept-encoding", accepted)];
        let reply = host.request("POST", &path("m"), &headers, &body);
        assert_eq!(reply.header("content-encoding"), expected, "{accepted}");
        let mut varies = reply.headers.iter().filter(|(name, _)| name == "vary");
        assert!(varies.any(|(_, value)| value == "accept-encoding"), "{accepted}: {:?}", reply.headers);
        // What is given is taken.
        if let Some(coding) = expected {
            let packed = host.request(
                "POST",
                &path("m"),
                &[("content-encoding", coding), ("content-type", "application/json")],
                &reply.body,
            );
            assert_ne!(packed.status, 415, "{coding}");
            assert!(!packed.text().contains("announced as"), "{coding}: {}", packed.text());
        }
    }
    // A little answer stays as it is.
    let little = json!({ "inputs": [input("x", "FP32", &[1], json!([1]))] }).to_string();
    let reply = host.request("POST", &path("m"), &[("accept-encoding", "gzip")], little.as_bytes());
    assert_eq!((reply.header("content-encoding"), outputs(&reply)[0]["data"].clone()), (None, json!([1.0])));
}

#[test]
fn a_bomb_is_a_body_that_is_too_large() {
    let host = Host::with(Some(&component("tests/echo")), None, &["--name", "echo", "--body", "1MiB"]);
    let zeros = vec![b' '; 512 << 20];
    let bombs = [("gzip", gzip(&zeros)), ("deflate", deflate(&zeros))];
    drop(zeros);
    for (coding, bomb) in &bombs {
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let text = packed(&host, "/echo", coding, bomb).error(413, "body_too_large", "admit");
        assert_eq!(text, "the body is longer than 1048576 bytes when it is unpacked");
    }
    for (coding, body) in [
        ("gzip", &b"{}"[..]),
        ("deflate", b"{}"),
        ("gzip", b""),
        ("gzip", &gzip(b"{}")[..10]),
        ("deflate", &[deflate(b"{}"), b"more".to_vec()].concat()),
        ("deflate", &gzip(b"{}")),
    ] {
        packed(&host, "/echo", coding, body).error(400, "invalid_input", "admit");
    }
    for coding in ["compress", "gzip, deflate", "gzip;q=1", ""] {
        let text = packed(&host, "/echo", coding, b"{}").error(415, "unsupported_media_type", "admit");
        let taken = "`gzip`, `deflate`, `br` or `zstd`";
        assert_eq!(text, format!("expected content encoding {taken}, once, got `{coding}`"));
    }
    // Exactly as long as a body may be.
    let longest = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    assert_eq!(packed(&host, "/echo", "gzip", &gzip(longest.as_bytes())).json()["body"], longest);
}

#[test]
fn a_body_in_pieces_is_put_together() {
    let host = identity("uint8", &["--body", "8MiB"]);
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n / 3) as u8).collect();
    let json = all_binary(json!([binary("x", "UINT8", &[3_000_000], data.len())])).to_string();
    let body = [json.as_bytes(), &data].concat();
    let head = |framing: &str| {
        let length = json.len();
        format!(
            "POST {} HTTP/1.1\r\nhost: test\r\ninference-header-content-length: {length}\r\n{framing}\r\n\r\n",
            path("m")
        )
    };
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(head(&format!("content-length: {}", body.len())).as_bytes()).unwrap();
    body.chunks(70_001).for_each(|piece| wire.send(piece).unwrap());
    assert!(answer(&wire.read().unwrap()).1 == data);
    wire.send(head("transfer-encoding: chunked").as_bytes()).unwrap();
    for piece in body.chunks(70_001) {
        wire.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).unwrap();
    }
    wire.send(b"0\r\n\r\n").unwrap();
    assert!(answer(&wire.read().unwrap()).1 == data);
}
