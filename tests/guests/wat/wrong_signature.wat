;; Exports the right name at the right version, with another function type.
(component
  (core module $code (func (export "pre-inference") (param i32) (result i32) unreachable))
  (core instance $code (instantiate $code))
  (func $pre-inference (param "sample" u32) (result u32) (canon lift (core func $code "pre-inference")))
  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.1.0" (instance $exports)))
