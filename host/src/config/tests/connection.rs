//! TLS and keys: what is taken, and what is refused without being repeated.

use super::*;

/// The problems of a server of `m.onnx` with this besides, one line each.
fn problems(folder: &Folder, given: &[&str]) -> Vec<String> {
    let report = folder.serve(&[&["model DIR/m.onnx"], given].concat()).map(|_| "no problem").unwrap_err();
    report.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn certificate_and_key_come_together() {
    let folder = Folder::new();
    for file in ["cert.pem", "key.pem"] {
        folder.write(file, "");
    }
    let pair = ["model DIR/m.onnx", "tls-cert DIR/cert.pem", "tls-key DIR/key.pem"];
    let config = folder.serve(&[&pair[..], &["tls-admin true"]].concat()).unwrap();
    let files = config.server.tls.unwrap();
    assert!(files.certificate.ends_with("cert.pem") && files.key.ends_with("key.pem"), "{files:?}");
    assert!(config.server.tls_admin);
    let key = fs::canonicalize(files.key).unwrap();
    assert!(config.endpoints[0].hidden.contains(&key), "no handler may read it");
    for (given, expected) in [
        ("tls-cert DIR/cert.pem", "--tls-cert: is one half of a pair; hint: give `tls-key` too"),
        (
            "MODELHOST_TLS_KEY DIR/key.pem",
            "MODELHOST_TLS_KEY: is one half of a pair; hint: give `tls-cert` too",
        ),
        ("tls-admin true", "--tls-admin: needs a certificate; hint: give `tls-cert` and `tls-key` too"),
    ] {
        assert_eq!(problems(&folder, &[given]), [expected]);
    }
    let absent = problems(&folder, &["tls-cert DIR/no.pem", "tls-key DIR/project"]);
    assert!(
        absent[0].contains("there is no `DIR/no.pem`") && absent[1].contains("is a folder"),
        "{absent:?}"
    );
}

#[test]
fn keys_are_pointed_to_and_never_written() {
    let folder = Folder::new();
    let several =
        folder.serve(&["model DIR/m.onnx", "MODELHOST_KEY @DIR/keys,env:OTHER", "OTHER third"]).unwrap();
    assert_eq!(format!("{:?}", several.endpoints[0].keys), "Keys(3)");
    let file = fs::canonicalize(folder.0.path().join("keys")).unwrap();
    assert!(several.endpoints[0].hidden.contains(&file), "no handler may read it");

    folder.write("none", "# nothing\n\n");
    folder.write("bad", "good\nwith s3cret space\n");
    for flag in ["key", "admin-key"] {
        for (source, expected) in [
            ("s3cret", "names no source of a key; hint: write `@FILE`"),
            ("@", "names no source of a key; hint: write `@FILE`"),
            ("env:", "names no source of a key; hint: write `@FILE`"),
            ("@DIR/absent", "there is no `DIR/absent`; hint: check the path"),
            ("env:S3CRET", "`S3CRET` is not set in the environment of the host; hint: set it"),
            ("@DIR/none", "`DIR/none` holds no key; hint: write one key a line"),
            ("env:EMPTY", "variable `EMPTY` holds no key; hint: write one key a line"),
            ("@DIR/bad", "line 2 of `DIR/bad` is not a key; hint: write one key a line"),
        ] {
            let found = problems(&folder, &[&format!("{flag} {source}"), "EMPTY  "]);
            let expected = format!("--{flag}: {expected}");
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{expected}\n{found:?}");
            assert!(!found[0].contains("s3cret"), "{found:?}");
        }
    }
    let listed = folder.report("[[endpoint]]\nmodel = 'm.onnx'\nkeys = ['@keys', 's3cret']\n", &[]);
    assert!(
        listed.contains("modelhost.toml:3: `endpoint.keys`: names no source") && !listed.contains("s3cret"),
        "{listed}"
    );
}
