//! A connection to a running server: whatever bytes come, it answers or closes, and answers the next client.
//!
//! The server is the real one, on a free port of this process, with a handler alone (and its input schema) and one that takes
//! tensors; their components are those of `make build`.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use host::{app, config};
use libfuzzer_sys::fuzz_target;

/// Longer than any answer takes here; a connection that is silent for longer hangs.
const PATIENCE: Duration = Duration::from_secs(5);

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let components = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components/tests");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("modelhost.toml");
    let endpoint = |name: &str| {
        let plugin = components.join(format!("{name}.wasm"));
        format!("[[endpoint]]\nname = '{name}'\nplugin = '{}'\nlimits.body = '64KiB'\n", plugin.display())
    };
    let text = endpoint("greet") + &endpoint("tensors");
    std::fs::write(&file, text).expect("a file");
    let variable = |name: &str| match name {
        "MODELHOST_CONFIG" => Some(file.display().to_string()),
        "MODELHOST_LISTEN" | "MODELHOST_ADMIN_LISTEN" => Some("127.0.0.1:0".to_owned()),
        "MODELHOST_CACHE_DIR" => Some("none".to_owned()),
        _ => None,
    };
    let config = config::serve(&config::Overrides::default(), &variable).expect("a configuration");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let app = app::App::build(config).await.expect("a server");
            sender.send(app.addresses().main).expect("somebody waits");
            // Nobody asks for a reload.
            let (_ask, reload) = tokio::sync::mpsc::channel(1);
            app.run(std::future::pending(), reload, || Err(String::new())).await.expect("it serves");
        });
    });
    receiver.recv().expect("an address")
});

fuzz_target!(|data: &[u8]| {
    let mut stream = TcpStream::connect(*SERVER).expect("the server takes connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // The server may close before it has read all.
    let _ = stream.write_all(data);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert!(
            !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
            "no answer and no end"
        ),
    }
});
