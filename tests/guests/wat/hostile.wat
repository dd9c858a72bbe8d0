;; Breaks the rules below any language: the body's first letter says which. `z`, and what is no letter, answers `good`.
;;
;; traps:    a divides by zero, b calls a null function, c calls a function of another type, d reads beyond its memory,
;;           e writes there, f converts what is no integer
;; limits:   g grows its memory until it may not, h its table, and then traps
;; the ABI:  i list beyond the memory, j list of four thousand million, k pointer to the result that is not aligned,
;;           l pointer beyond the memory, m a datatype that is none, n a name that is not UTF-8, o a result that is neither
;;           ok nor error, p an error of no kind, q a shape that is not aligned, r a name that overlaps everything,
;;           s the context dropped twice, t a handle that nobody gave it
;; the host: u a terabyte of random bytes, v random bytes for ever, w one timer polled four thousand times at once, for ever,
;;           x timers without end
;;
;; Tests put other pieces in: a start function for `;; START`, an allocator that lies for `(i32.const 1024)`.
(component
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

  (import "wasi:random/random@0.2.0" (instance $bytes
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (export "pollable" (type $timer (eq $pollable)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $timer))))))

  (core module $libc
    (memory (export "memory") 1)
    ;; Every allocation in the same place: the body comes last, and its first letter is all that is read.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $drop-context (canon resource.drop $context))
  (core func $get-bytes (canon lower (func $bytes "get-random-bytes") (memory $memory) (realloc $realloc)))
  (core func $poll-all (canon lower (func $poll "poll") (memory $memory) (realloc $realloc)))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))

  (core module $code
    (import "host" "memory" (memory 1))
    (import "host" "drop-context" (func $drop-context (param i32)))
    (import "host" "get-bytes" (func $get-bytes (param i64 i32)))
    (import "host" "poll" (func $poll (param i32 i32 i32)))
    (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
    (type $nothing (func))
    (type $number (func (result i32)))
    (table $table 2 funcref)
    (func $something (type $nothing))
    (elem (i32.const 1) $something)
    ;; 16: a type and a body. 64: what `pre-inference` returns. 128: a tensor.
    (data (i32.const 16) "text/plain")
    (data (i32.const 32) "good")
    (data (i32.const 48) "\ff\fe\fd")
    ;; START
    (func $is (param $letter i32) (param $wanted i32) (result i32)
      (i32.eq (local.get $letter) (local.get $wanted)))
    ;; The result is a list of tensors: its place, its length.
    (func $list (param $at i32) (param $length i32) (result i32)
      (i32.store8 (i32.const 64) (i32.const 0))
      (i32.store (i32.const 68) (local.get $at))
      (i32.store (i32.const 72) (local.get $length))
      (i32.const 64))
    ;; One tensor at 128: name, datatype, shape; no data.
    (func $tensor (param $name i32) (param $length i32) (param $datatype i32) (param $shape i32) (result i32)
      (i32.store (i32.const 128) (local.get $name))
      (i32.store (i32.const 132) (local.get $length))
      (i32.store8 (i32.const 136) (local.get $datatype))
      (i32.store (i32.const 140) (local.get $shape))
      (i32.store (i32.const 144) (i32.const 1))
      (i32.store (i32.const 148) (i32.const 0))
      (i32.store (i32.const 152) (i32.const 0))
      (call $list (i32.const 128) (i32.const 1)))
    (func (export "pre-inference") (param i32 i32 i32 i32 i32) (result i32)
      (local $k i32) (local $timer i32) (local $n i32)
      (local.set $k (i32.load8_u (i32.const 1024)))
      (call $drop-context (local.get 4))
      (if (call $is (local.get $k) (i32.const 0x61)) (then
        (drop (i32.div_u (i32.const 1) (i32.const 0)))))
      (if (call $is (local.get $k) (i32.const 0x62)) (then
        (call_indirect (type $nothing) (i32.const 0))))
      (if (call $is (local.get $k) (i32.const 0x63)) (then
        (drop (call_indirect (type $number) (i32.const 1)))))
      (if (call $is (local.get $k) (i32.const 0x64)) (then
        (drop (i32.load (i32.const 0x7ffffff0)))))
      (if (call $is (local.get $k) (i32.const 0x65)) (then
        (i64.store (i32.const -8) (i64.const 1))))
      (if (call $is (local.get $k) (i32.const 0x66)) (then
        (drop (i32.trunc_f32_s (f32.const nan)))))
      (if (call $is (local.get $k) (i32.const 0x67)) (then
        (loop $more
          (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        unreachable))
      (if (call $is (local.get $k) (i32.const 0x68)) (then
        (loop $more
          (br_if $more (i32.ne (table.grow $table (ref.null func) (i32.const 4096)) (i32.const -1))))
        unreachable))
      (if (call $is (local.get $k) (i32.const 0x69)) (then
        (return (call $list (i32.const 0x7ffffff0) (i32.const 1)))))
      (if (call $is (local.get $k) (i32.const 0x6a)) (then
        (return (call $list (i32.const 128) (i32.const -1)))))
      (if (call $is (local.get $k) (i32.const 0x6b)) (then
        (return (i32.const 66))))
      (if (call $is (local.get $k) (i32.const 0x6c)) (then
        (return (i32.const 0x7ffffff0))))
      (if (call $is (local.get $k) (i32.const 0x6d)) (then
        (return (call $tensor (i32.const 16) (i32.const 4) (i32.const 200) (i32.const 256)))))
      (if (call $is (local.get $k) (i32.const 0x6e)) (then
        (return (call $tensor (i32.const 48) (i32.const 3) (i32.const 1) (i32.const 256)))))
      (if (call $is (local.get $k) (i32.const 0x6f)) (then
        (i32.store8 (i32.const 64) (i32.const 7))
        (return (i32.const 64))))
      (if (call $is (local.get $k) (i32.const 0x70)) (then
        (i32.store8 (i32.const 64) (i32.const 1))
        (i32.store8 (i32.const 68) (i32.const 9))
        (return (i32.const 64))))
      (if (call $is (local.get $k) (i32.const 0x71)) (then
        (return (call $tensor (i32.const 16) (i32.const 4) (i32.const 1) (i32.const 257)))))
      (if (call $is (local.get $k) (i32.const 0x72)) (then
        (return (call $tensor (i32.const 0) (i32.const 65536) (i32.const 1) (i32.const 256)))))
      (if (call $is (local.get $k) (i32.const 0x73)) (then
        (call $drop-context (local.get 4))))
      (if (call $is (local.get $k) (i32.const 0x74)) (then
        (call $drop-context (i32.const 77))))
      (if (call $is (local.get $k) (i32.const 0x75)) (then
        (call $get-bytes (i64.const 0x10000000000) (i32.const 80))))
      (if (call $is (local.get $k) (i32.const 0x76)) (then
        (loop $more (call $get-bytes (i64.const 32768) (i32.const 80)) (br $more))))
      (if (call $is (local.get $k) (i32.const 0x77)) (then
        (local.set $timer (call $subscribe (i64.const 0)))
        (loop $more
          (i32.store offset=32768 (local.get $n) (local.get $timer))
          (local.set $n (i32.add (local.get $n) (i32.const 4)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const 16384))))
        (loop $more (call $poll (i32.const 32768) (i32.const 4096) (i32.const 80)) (br $more))))
      (if (call $is (local.get $k) (i32.const 0x78)) (then
        (loop $more (drop (call $subscribe (i64.const 0x10000000000))) (br $more))))
      ;; An error of the third kind: respond, with a status, a type, no headers and a body.
      (i32.store8 (i32.const 64) (i32.const 1))
      (i32.store8 (i32.const 68) (i32.const 2))
      (i32.store16 (i32.const 72) (i32.const 200))
      (i32.store (i32.const 76) (i32.const 16))
      (i32.store (i32.const 80) (i32.const 10))
      (i32.store (i32.const 84) (i32.const 0))
      (i32.store (i32.const 88) (i32.const 0))
      (i32.store (i32.const 92) (i32.const 32))
      (i32.store (i32.const 96) (i32.const 4))
      (i32.const 64)))
  (core instance $code (instantiate $code (with "host" (instance
    (export "memory" (memory $memory))
    (export "drop-context" (func $drop-context))
    (export "get-bytes" (func $get-bytes))
    (export "poll" (func $poll-all))
    (export "subscribe" (func $subscribe))))))
  (func $pre-inference (param "sample" $sample) (param "context" (borrow $context))
    (result (result (list $tensor) (error $error)))
    (canon lift (core func $code "pre-inference") (memory $memory) (realloc $realloc)))

  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.1.0" (instance $exports)))
