// Package serve contains what daemons share: a command that serves until it receives a signal, and the flags for
// drivers and connections.
package serve
