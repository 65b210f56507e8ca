// Package daemon is the common part of the processes of writ: listeners, stores and their locks, files that a process
// creates only once, metrics and traces. Each process has a package below this folder; together they are the only place
// that chooses stores and drivers. They must not know the command line.
//
// All processes have the same life cycle. New(Config) checks the settings and opens nothing. Run(ctx) serves until ctx
// ends. Config.Ready is called when the process serves.
package daemon
