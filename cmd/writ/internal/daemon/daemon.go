// Package daemon assembles the processes of writ: coordinator, supervisor, runner, boot server, and all of them in one
// process for `writ dev`. It is the only place that chooses stores and drivers. It must not know the command line. A
// process is a struct of settings; it starts in Run.
package daemon
