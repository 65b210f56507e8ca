// Package writ holds the types that at least two packages share: ids, values, states and error codes. It has no I/O,
// interfaces, locks, SQL or HTTP, and imports only the standard library. docs/architecture.md defines the terms.
package writ
