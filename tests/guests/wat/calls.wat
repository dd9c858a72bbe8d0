;; Answers `good`, after what a test puts in the place of `;; BODY`, in an instance that has run what it puts in the place of
;; `;; START`. `$header` takes a name's place and length and where to leave the value; `$loop` counts to its argument.
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
    (export "context" (type $context (sub resource)))
    (export "[method]context.header"
      (func (param "self" (borrow $context)) (param "name" string) (result (option string))))))
  (alias export $types "tensor" (type $tensor))
  (alias export $types "sample" (type $sample))
  (alias export $types "error" (type $error))
  (alias export $types "context" (type $context))

  (core module $libc
    (memory (export "memory") 960)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $drop-context (canon resource.drop $context))
  (core func $header (canon lower (func $types "[method]context.header") (memory $memory) (realloc $realloc)))

  (core module $code
    (import "host" "memory" (memory 1))
    (import "host" "drop-context" (func $drop-context (param i32)))
    (import "host" "header" (func $header (param i32 i32 i32 i32)))
    (data (i32.const 16) "text/plain")
    (data (i32.const 32) "good")
    (func $loop (param $n i64)
      (loop $more
        (local.set $n (i64.sub (local.get $n) (i64.const 1)))
        (br_if $more (i64.gt_s (local.get $n) (i64.const 0)))))
    ;; START
    (func (export "pre-inference") (param i32 i32 i32 i32 i32) (result i32)
      ;; BODY
      (call $drop-context (local.get 4))
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
    (export "header" (func $header))))))
  (func $pre-inference (param "sample" $sample) (param "context" (borrow $context))
    (result (result (list $tensor) (error $error)))
    (canon lift (core func $code "pre-inference") (memory $memory) (realloc $realloc)))

  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.1.0" (instance $exports)))
