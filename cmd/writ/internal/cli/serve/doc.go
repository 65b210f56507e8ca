// Package serve contains the shared parts of daemons: a command that serves until it receives a signal, and the flags
// for drivers and connections.
package serve
