;; Answers `invalid-input` with the text that a global points to: `unready!` until `init` has written `prepared` somewhere else in
;; memory and made the global point there.
;;
;; Written by hand so that tests can put in what compilers rarely make: in place of `;; CORE` in the module, of `;; OUTER` in
;; the component.
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
  (core func $drop-context (canon resource.drop $context))

  (core module $code
    (import "host" "drop-context" (func $drop-context (param i32)))
    (memory (export "memory") 1)
    (global $text (mut i32) (i32.const 16))
    (data (i32.const 16) "unready!")
    (data (i32.const 128) "prepared")
    ;; CORE
    ;; Every allocation in the same place: nothing that comes in is ever read.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "init") (param i32 i32) (result i32)
      (memory.copy (i32.const 32) (i32.const 128) (i32.const 8))
      (global.set $text (i32.const 32))
      ;; At 48 all is zero, which is a success.
      (i32.const 48))
    (func (export "pre-inference") (param i32 i32 i32 i32 i32) (result i32)
      (call $drop-context (local.get 4))
      ;; An error, the first kind of it, eight bytes where the global says.
      (i32.store8 (i32.const 64) (i32.const 1))
      (i32.store8 (i32.const 68) (i32.const 0))
      (i32.store (i32.const 72) (global.get $text))
      (i32.store (i32.const 76) (i32.const 8))
      (i32.const 64)))
  (core instance $code (instantiate $code
    (with "host" (instance (export "drop-context" (func $drop-context))))))
  (alias core export $code "memory" (core memory $memory))
  (alias core export $code "realloc" (core func $realloc))

  (func $init (param "metadata" string) (result (result (error string)))
    (canon lift (core func $code "init") (memory $memory) (realloc $realloc)))
  (instance $init (export "init" (func $init)))
  (export "modelhost:handler/init@0.1.0" (instance $init))
  (func $pre-inference (param "sample" $sample) (param "context" (borrow $context))
    (result (result (list $tensor) (error $error)))
    (canon lift (core func $code "pre-inference") (memory $memory) (realloc $realloc)))
  (instance $pre-inference (export "pre-inference" (func $pre-inference)))
  ;; OUTER
  (export "modelhost:handler/pre-inference@0.1.0" (instance $pre-inference)))
