//! Components that attack whoever loads them: in their start functions, by what they ask for, by their form, by what they take
//! to compile. Each is offered to an endpoint that serves; what is refused changes nothing there, and the neighbour loses
//! nothing by either.

use std::fs;
use std::thread;

use e2e::load::{Pattern, alone, assert_echoed};
use e2e::setup::Setup;
use e2e::{Host, assembled, component, request, root, version};

use super::{SOON_BESIDE_A_COMPILER, endpoint, neighbour};

/// `hostile.wat` with pieces put in the place of others.
fn patched(pieces: &[(&str, &str)]) -> Vec<u8> {
    let mut text = fs::read_to_string(root().join("tests/guests/wat/hostile.wat")).unwrap();
    for (old, new) in pieces {
        assert!(text.contains(old), "no `{old}`");
        text = text.replacen(old, new, 1);
    }
    wat::parse_str(text).unwrap()
}

/// The same with further definitions in the module that holds its code.
fn with_code(definitions: &str) -> Vec<u8> {
    patched(&[(";; START\n", definitions)])
}

/// `n` components in one another, around nothing.
fn nested(n: usize) -> Vec<u8> {
    let mut inner = b"\0asm\x0d\0\x01\0".to_vec();
    for _ in 0..n {
        let outer = section(4, &inner);
        inner.truncate(8);
        inner.extend(outer);
    }
    inner
}

/// Components of which each has two instances of the one before, in one another.
fn doubled(n: usize) -> String {
    let innermost = "(component $c (core module $m) (core instance (instantiate $m)))".to_owned();
    let outermost = (0..n).fold(innermost, |inner, _| {
        format!("(component $c {inner} (instance (instantiate $c)) (instance (instantiate $c)))")
    });
    format!("{outermost} (instance (instantiate $c))\n")
}

/// A section: its id, its length, what it holds.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut section = vec![id];
    let mut length = content.len();
    loop {
        let more = if length >= 128 { 128 } else { 0 };
        section.push(u8::try_from(length % 128).unwrap() | more);
        length /= 128;
        if length == 0 {
            break;
        }
    }
    section.extend(content);
    section
}

/// A good component with a section of this many bytes that means nothing.
fn with_ballast(length: usize) -> Vec<u8> {
    let mut content = b"\x07ballast".to_vec();
    content.resize(length, 0x5a);
    [with_code(""), section(0, &content)].concat()
}

/// What is offered, and a part of why it is refused; `None` if it is taken.
fn offers() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let good = with_code("");
    let many = |text: &str, n: usize| text.repeat(n);
    let import = |name: &str| format!("(component\n  (import \"{name}\" (instance (export \"f\" (func))))");
    let core_instances =
        "(core module $empty)\n".to_owned() + &many("(core instance (instantiate $empty))\n", 1000);
    vec![
        // Start functions.
        ("a start that traps", with_code("(func $start unreachable) (start $start)"), Some("fails to start")),
        (
            "a start that recurses",
            with_code("(func $start (call $start)) (start $start)"),
            Some("fails to start"),
        ),
        (
            "a start that grows its memory",
            with_code(
                "(func $start (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable) (start $start)",
            ),
            Some("fails to start"),
        ),
        // What it asks for.
        (
            "four gigabytes to begin with",
            patched(&[("(memory (export \"memory\") 1)", "(memory (export \"memory\") 65536)")]),
            Some("memory"),
        ),
        ("two hundred memories", with_code(&many("(memory 1)\n", 200)), Some("memor")),
        ("a hundred tables", with_code(&many("(table 60000 funcref)\n", 100)), Some("table")),
        ("a table of ten million", with_code("(table 10000000 funcref)"), Some("table")),
        (
            "a thousand core instances",
            patched(&[("(component\n", &format!("(component\n{core_instances}"))]),
            Some("instance"),
        ),
        (
            "an import nobody knows",
            patched(&[("(component\n", &import("evil:corp/mine@1.0.0"))]),
            Some("evil:corp/mine"),
        ),
        ("the network", assembled("sockets"), Some("wasi:sockets")),
        ("a contract nobody knows", assembled("unknown_version"), Some("0.9.0")),
        // Its form.
        ("nothing", Vec::new(), Some("not a WebAssembly file")),
        ("half of it", good[..good.len() / 2].to_vec(), Some("cannot be compiled")),
        ("a core module", b"\0asm\x01\0\0\0".to_vec(), Some("core module")),
        (
            "noise",
            (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
            Some("not a WebAssembly file"),
        ),
        (
            "a length beyond the end",
            [b"\0asm\x0d\0\x01\0".as_slice(), &[4, 255, 255, 255, 255, 7]].concat(),
            Some("cannot be compiled"),
        ),
        ("a hundred components in one another", nested(100), Some("exports neither")),
        ("ten thousand components in one another", nested(10_000), Some("")),
        ("a section of 32 MiB", with_ballast(32 << 20), None),
        // What it takes to compile.
        (
            "fifty thousand functions",
            with_code(&many(
                "(func (param i64) (result i64) (i64.mul (local.get 0) (i64.const 3)))\n",
                50_000,
            )),
            None,
        ),
        (
            "forty thousand locals",
            with_code(&format!("(func (local {}) (local.set 39999 (i64.const 1)))", many("i64 ", 40_000))),
            None,
        ),
        (
            "jumps to anywhere",
            with_code(&many(
                &format!(
                    "(func (param i32) block block block local.get 0 br_table {} 0 end end end)\n",
                    many("0 1 2 ", 10_000)
                ),
                4,
            )),
            None,
        ),
        (
            "blocks in one another",
            with_code(&format!("(func {} {})", many("block ", 20_000), many("end ", 20_000))),
            None,
        ),
        (
            "a value that goes through many blocks",
            with_code(&format!(
                "(func (param i32) (result i32) local.get 0 {})",
                many("block (param i32) (result i32) local.get 0 br_if 0 end ", 30_000)
            )),
            Some("60000 branches, and 60001 values that calls and blocks take or leave"),
        ),
        (
            "many values that many branches keep",
            with_code(&format!(
                "(func $many (result {}) unreachable) (func {} {} unreachable)",
                many("i32 ", 1000),
                many("call $many ", 20),
                many("block i32.const 0 br_if 0 end ", 30_000)
            )),
            Some("more than 3072: of 12 functions"),
        ),
        (
            "components of which each has two of the one before",
            patched(&[("(component\n", &format!("(component\n{}", doubled(40)))]),
            Some("the instances of its nested components alone take"),
        ),
    ]
}

#[test]
fn whoever_loads_them_lives_and_the_neighbour_does_not_notice() {
    let _alone = alone();
    let echo = component("tests/echo");
    let host =
        Setup::of([endpoint("target", &echo, "10s"), endpoint("slow", &echo, "10s"), neighbour()]).serve();
    let offer = |endpoint: &str, bytes: &[u8]| {
        let url = format!("{}/admin/v1/endpoints/{endpoint}/plugin", host.admin);
        request("PUT", &url, &[], bytes)
    };
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    thread::scope(|scope| {
        // It has ten seconds, and takes them.
        let slow = scope.spawn(|| offer("slow", &with_code("(func $start (loop (br 0))) (start $start)")));
        for (number, (what, bytes, refused)) in offers().into_iter().enumerate() {
            let before = host.endpoint("target")["digest"].clone();
            let started = std::time::Instant::now();
            let reply = offer("target", &bytes);
            eprintln!("{what}: {} in {:?}", reply.text(), started.elapsed());
            let current = host.endpoint("target")["digest"].clone();
            let answer = host.post("/target", "z");
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            match refused {
                Some(words) => {
                    assert!(reply.status >= 400 && reply.text().contains(words), "{what}: {}", reply.text());
                    assert!(current == before && answer.text().contains("\"body\":\"z\""), "{what}");
                }
                None => {
                    assert!(reply.status == 200 && current != before, "{what}: {}", reply.text());
                    assert_eq!(answer.text(), "good", "{what}");
                    // The good one again, as another version of itself.
                    assert_eq!(
                        offer("target", &version("tests/echo", u8::try_from(number).unwrap())).status,
                        200
                    );
                }
            }
        }
        let slow = slow.join().unwrap();
        assert!(slow.status >= 400 && slow.text().contains("took too long"), "{}", slow.text());
        assert_eq!(host.post("/slow", "z").json()["body"], "z");
    });
    // What compilations may take together, and the host itself.
    let most = host.memory("VmHWM") >> 10;
    assert!(most < 3584, "{most} MiB at the height");
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON_BESIDE_A_COMPILER);
}

/// A start function that traps once in four times: some version of it is loaded, and some request meets the trap.
#[test]
fn a_start_that_fails_costs_the_request_that_needed_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("start.wasm");
    let random = "(component\n  (import \"wasi:random/insecure@0.2.0\" (instance $random \
        (export \"get-insecure-random-u64\" (func (result u64)))))\n  \
        (core func $random (canon lower (func $random \"get-insecure-random-u64\")))\n";
    let start = "(func $start (if (i64.eqz (i64.and (call $random) (i64.const 3))) (then unreachable))) (start $start)";
    let bytes = patched(&[
        ("(component\n", random),
        (
            "(import \"host\" \"memory\" (memory 1))",
            "(import \"host\" \"memory\" (memory 1)) (import \"host\" \"random\" (func $random (result i64)))",
        ),
        (
            "(export \"memory\" (memory $memory))",
            "(export \"memory\" (memory $memory)) (export \"random\" (func $random))",
        ),
        (";; START\n", start),
    ]);
    fs::write(&file, bytes).unwrap();
    let arguments = ["--plugin", file.to_str().unwrap(), "--isolation", "request", "--name", "start"];
    let host = (0..100).find_map(|_| Host::try_serve(&arguments).ok()).expect("three times in four");
    let fault =
        (0..1000).map(|_| host.post("/", "z")).find(|reply| reply.status != 200).expect("once in four");
    fault.error(500, "plugin_trap", "pre_inference");
    assert!(fault.header("x-handler-digest").is_some());
    assert_eq!(host.metric(r#"modelhost_plugin_faults_total{endpoint="start",kind="start"}"#), 1.0);
}
