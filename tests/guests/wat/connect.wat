;; Tries to reach the network in every way there is, for an endpoint with `network = "stub"`: makes a TCP socket, makes
;; a UDP socket, looks a name up. Answers `invalid-input` with a letter for each: `!` if it succeeded, else the error's
;; place in WASI's `error-code`: `a` unknown, `b` access-denied, ….
;;
;; Written by hand because a toolchain's C library decides whether a Rust program can reach WASI's sockets at all.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (export "network" (type (sub resource)))
    (type $error-code' (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
      "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit"
      "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset"
      "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure"
      "permanent-resolver-failure"))
    (export "error-code" (type (eq $error-code')))
    (type $family' (enum "ipv4" "ipv6"))
    (export "ip-address-family" (type (eq $family')))))
  (alias export $network "network" (type $network-handle))
  (alias export $network "error-code" (type $error-code))
  (alias export $network "ip-address-family" (type $family))
  (import "wasi:sockets/instance-network@0.2.0" (instance $instance-network
    (export "network" (type $network (eq $network-handle)))
    (export "instance-network" (func (result (own $network))))))
  (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
  (alias export $tcp "tcp-socket" (type $tcp-socket))
  (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $tcp-create-socket
    (export "error-code" (type $error (eq $error-code)))
    (export "ip-address-family" (type $of (eq $family)))
    (export "tcp-socket" (type $socket (eq $tcp-socket)))
    (export "create-tcp-socket"
      (func (param "address-family" $of) (result (result (own $socket) (error $error)))))))
  (import "wasi:sockets/udp@0.2.0" (instance $udp (export "udp-socket" (type (sub resource)))))
  (alias export $udp "udp-socket" (type $udp-socket))
  (import "wasi:sockets/udp-create-socket@0.2.0" (instance $udp-create-socket
    (export "error-code" (type $error (eq $error-code)))
    (export "ip-address-family" (type $of (eq $family)))
    (export "udp-socket" (type $socket (eq $udp-socket)))
    (export "create-udp-socket"
      (func (param "address-family" $of) (result (result (own $socket) (error $error)))))))
  (import "wasi:sockets/ip-name-lookup@0.2.0" (instance $lookup
    (export "resolve-address-stream" (type $stream (sub resource)))
    (export "error-code" (type $error (eq $error-code)))
    (export "network" (type $of (eq $network-handle)))
    (export "resolve-addresses"
      (func (param "network" (borrow $of)) (param "name" string) (result (result (own $stream) (error $error)))))))

  (import "modelhost:handler/types@0.1.0" (instance $types
    (type $datatype' (enum "bool" "uint8" "uint16" "uint32" "uint64" "int8" "int16" "int32" "int64"
      "fp16" "bf16" "fp32" "fp64" "bytes"))
    (export "datatype" (type $datatype (eq $datatype')))
    (type $tensor' (record (field "name" string) (field "datatype" $datatype) (field "shape" (list u64))
      (field "data" (list u8))))
    (export "tensor" (type $tensor (eq $tensor')))
    (type $sample' (record (field "content-type" string) (field "body" (list u8))))
    (export "sample" (type $sample (eq $sample')))
    (type $response' (record (field "status" u16) (field "content-type" string)
      (field "headers" (list (tuple string string))) (field "body" (list u8))))
    (export "response" (type $response (eq $response')))
    (type $error' (variant (case "invalid-input" string) (case "internal" string) (case "respond" $response)))
    (export "error" (type $error (eq $error')))
    (export "context" (type $context (sub resource)))))
  (alias export $types "tensor" (type $tensor))
  (alias export $types "sample" (type $sample))
  (alias export $types "error" (type $error))
  (alias export $types "context" (type $context))

  (core module $libc
    (memory (export "memory") 1)
    ;; Every allocation in the same place: nothing of the sample is ever read.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))

  (core func $instance-network (canon lower (func $instance-network "instance-network")))
  (core func $tcp-lowered
    (canon lower (func $tcp-create-socket "create-tcp-socket") (memory $memory)))
  (core func $udp-lowered
    (canon lower (func $udp-create-socket "create-udp-socket") (memory $memory)))
  (core func $lookup-lowered (canon lower (func $lookup "resolve-addresses") (memory $memory)))
  (core func $drop-context (canon resource.drop $context))

  (core module $code
    (import "host" "memory" (memory 1))
    (import "host" "network" (func $network (result i32)))
    (import "host" "tcp" (func $tcp (param i32 i32)))
    (import "host" "udp" (func $udp (param i32 i32)))
    (import "host" "lookup" (func $lookup (param i32 i32 i32 i32)))
    (import "host" "drop-context" (func $drop-context (param i32)))
    ;; 0: every call's result in turn. 16: `localhost`. 32: the three letters. 64: what `pre-inference` returns.
    (data (i32.const 16) "localhost")
    (func $note (param $at i32)
      (i32.store8 (local.get $at)
        (select
          (i32.add (i32.const 0x61) (i32.load8_u (i32.const 4)))
          (i32.const 0x21)
          (i32.load8_u (i32.const 0)))))
    (func (export "pre-inference") (param i32 i32 i32 i32 i32) (result i32)
      (call $tcp (i32.const 0) (i32.const 0))
      (call $note (i32.const 32))
      (call $udp (i32.const 0) (i32.const 0))
      (call $note (i32.const 33))
      (call $lookup (call $network) (i32.const 16) (i32.const 9) (i32.const 0))
      (call $note (i32.const 34))
      (call $drop-context (local.get 4))
      ;; An error, the first kind of it, three bytes at 32.
      (i32.store8 (i32.const 64) (i32.const 1))
      (i32.store8 (i32.const 68) (i32.const 0))
      (i32.store (i32.const 72) (i32.const 32))
      (i32.store (i32.const 76) (i32.const 3))
      (i32.const 64)))
  (core instance $code (instantiate $code (with "host" (instance
    (export "memory" (memory $memory))
    (export "network" (func $instance-network))
    (export "tcp" (func $tcp-lowered))
    (export "udp" (func $udp-lowered))
    (export "lookup" (func $lookup-lowered))
    (export "drop-context" (func $drop-context))))))
  (func $pre-inference (param "sample" $sample) (param "context" (borrow $context))
    (result (result (list $tensor) (error $error)))
    (canon lift (core func $code "pre-inference") (memory $memory) (realloc $realloc)))

  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.1.0" (instance $exports)))
