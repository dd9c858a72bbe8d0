;; A component that is no handler: it exports nothing.
(component)
