// Package abi has how values lie in memory where the host, or a library, reads and writes them. Outside a component it is
// empty.
package abi
