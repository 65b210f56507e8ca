// Package runview shows the progress of a run, why it waits and how it failed.
package runview
