// Package daemon puts the processes of writ together: a coordinator, a supervisor, a runner, each from the packages that it is
// made of, the stores and drivers chosen here and nowhere else, and all of them in one process for `writ dev`. It must not know the
// command line. Everything is decided by what a Config says; nothing runs before Run.
package daemon
