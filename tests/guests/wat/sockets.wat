;; A good handler, but for one import: the network, which no handler is granted. Returns no tensors.
;;
;; Written by hand because a toolchain's C library decides whether a Rust program can reach WASI's sockets at all.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (export "network" (type (sub resource)))))
  (alias export $network "network" (type $network-handle))
  (import "wasi:sockets/instance-network@0.2.0" (instance $instance-network
    (export "network" (type $network (eq $network-handle)))
    (export "instance-network" (func (result (own $network))))))

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

  (core module $code
    (memory (export "memory") 1)
    ;; Every allocation in the same place: nothing of the sample is ever read.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    ;; Address 0 holds zeroes: `ok` of an empty list.
    (func (export "pre-inference") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0)))
  (core instance $code (instantiate $code))
  (alias core export $code "memory" (core memory $memory))
  (alias core export $code "realloc" (core func $realloc))
  (func $pre-inference (param "sample" $sample) (param "context" (borrow $context))
    (result (result (list $tensor) (error $error)))
    (canon lift (core func $code "pre-inference") (memory $memory) (realloc $realloc)))

  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.1.0" (instance $exports)))
