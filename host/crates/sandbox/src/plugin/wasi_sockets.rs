//! `wasi:sockets` 0.2, for guests whose runtime imports it and that may reach no network.
//!
//! Place in the flow: linked by [`linkers`](super::linkers) where an endpoint's network is `stub`, and for
//! applications. In: an attempt to make a socket or to look up a name. Out: `access-denied`, and
//! `permanent-resolver-failure`.
//! Invariant: no socket is made, so the functions of sockets are there for the linker alone. They have no
//! types of their own, since each would be code of a kilobyte that nothing runs.
//! Source: <https://github.com/WebAssembly/WASI/tree/main/proposals/sockets>.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceType, Val};
use wasmtime_wasi::p2::bindings::sockets::network::ErrorCode;

use super::state::State;

/// The version that later ones of 0.2 are compatible with.
const VERSION: &str = "0.2.0";

struct Network;
struct Socket<const KIND: u8>;

/// A resource that a guest cannot have, and its methods.
type Unreachable = (&'static str, fn() -> ResourceType, &'static [&'static str]);

const RESOLVED: Unreachable =
    ("resolve-address-stream", ResourceType::host::<Socket<0>>, &["resolve-next-address", "subscribe"]);
const TCP: Unreachable = (
    "tcp-socket",
    ResourceType::host::<Socket<1>>,
    &[
        "start-bind",
        "finish-bind",
        "start-connect",
        "finish-connect",
        "start-listen",
        "finish-listen",
        "accept",
        "local-address",
        "remote-address",
        "is-listening",
        "address-family",
        "set-listen-backlog-size",
        "keep-alive-enabled",
        "set-keep-alive-enabled",
        "keep-alive-idle-time",
        "set-keep-alive-idle-time",
        "keep-alive-interval",
        "set-keep-alive-interval",
        "keep-alive-count",
        "set-keep-alive-count",
        "hop-limit",
        "set-hop-limit",
        "receive-buffer-size",
        "set-receive-buffer-size",
        "send-buffer-size",
        "set-send-buffer-size",
        "subscribe",
        "shutdown",
    ],
);
const UDP: Unreachable = (
    "udp-socket",
    ResourceType::host::<Socket<2>>,
    &[
        "start-bind",
        "finish-bind",
        "stream",
        "local-address",
        "remote-address",
        "address-family",
        "unicast-hop-limit",
        "set-unicast-hop-limit",
        "receive-buffer-size",
        "set-receive-buffer-size",
        "send-buffer-size",
        "set-send-buffer-size",
        "subscribe",
    ],
);
const INCOMING: Unreachable =
    ("incoming-datagram-stream", ResourceType::host::<Socket<3>>, &["receive", "subscribe"]);
const OUTGOING: Unreachable =
    ("outgoing-datagram-stream", ResourceType::host::<Socket<4>>, &["check-send", "send", "subscribe"]);

/// The interfaces with resources that a guest cannot have.
const UNREACHABLE: [(&str, &[Unreachable]); 3] =
    [("ip-name-lookup", &[RESOLVED]), ("tcp", &[TCP]), ("udp", &[UDP, INCOMING, OUTGOING])];
/// The functions that would make one, by interface.
const REFUSING: [(&str, &str); 2] =
    [("tcp-create-socket", "create-tcp-socket"), ("udp-create-socket", "create-udp-socket")];

/// Links the sockets of WASI.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let name = |interface: &str| format!("wasi:sockets/{interface}@{VERSION}");
    let network = ResourceType::host::<Network>;
    linker.instance(&name("network"))?.resource("network", network(), |_, _| Ok(()))?;
    linker
        .instance(&name("instance-network"))?
        .func_wrap("instance-network", |_, ()| Ok((Resource::<Network>::new_own(0),)))?;
    for (interface, resources) in UNREACHABLE {
        let mut instance = linker.instance(&name(interface))?;
        for (resource, of_type, methods) in resources {
            instance.resource(resource, of_type(), |_, _| Ok(()))?;
            for method in *methods {
                instance.func_new(
                    &format!("[method]{resource}.{method}"),
                    |_: StoreContextMut<'_, State>, _, _: &[Val], _: &mut [Val]| {
                        Err(wasmtime::Error::msg("a method of a socket that was never made"))
                    },
                )?;
            }
        }
    }
    for (interface, function) in REFUSING {
        linker.instance(&name(interface))?.func_new(
            function,
            |_: StoreContextMut<'_, State>, _, _: &[Val], results: &mut [Val]| {
                if let Some(result) = results.first_mut() {
                    *result = Val::Result(Err(Some(Box::new(Val::Enum("access-denied".to_owned())))));
                }
                Ok(())
            },
        )?;
    }
    // By its types, since it borrows a handle, which is to be given back.
    linker.instance(&name("ip-name-lookup"))?.func_wrap(
        "resolve-addresses",
        |_: StoreContextMut<'_, State>, (_, _): (Resource<Network>, String)| {
            Ok((Err::<Resource<Socket<0>>, _>(ErrorCode::PermanentResolverFailure),))
        },
    )
}
