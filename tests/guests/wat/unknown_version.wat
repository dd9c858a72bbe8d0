;; A handler for a version of the contract that does not exist.
(component
  (core module $code (func (export "pre-inference") unreachable))
  (core instance $code (instantiate $code))
  (func $pre-inference (canon lift (core func $code "pre-inference")))
  (instance $exports (export "pre-inference" (func $pre-inference)))
  (export "modelhost:handler/pre-inference@0.9.0" (instance $exports)))
