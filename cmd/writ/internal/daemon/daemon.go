// Package daemon is the common part of the processes of writ: listeners, stores and their locks, files that a process creates
// only once, metrics and traces. Each process has a package below this folder; together they are the only place that
// chooses stores and drivers. They must not know the command line.
package daemon
