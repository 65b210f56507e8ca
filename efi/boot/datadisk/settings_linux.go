package datadisk

import (
	"context"
	"path/filepath"

	"writ/efi/progress"
)

// Settings selects the data disk of a node.
type Settings struct {
	Label  string // label of the file system; the data is in memory if ""
	Serial string // serial number of the disk, which is formatted if it is empty; if "", no disk is formatted
	Node   string // configured name of the node; "" accepts any node
	Dir    string // directory of the node; the disk is mounted at its parent
}

func (s Settings) mountPoint() string { return filepath.Dir(s.Dir) }

// Unmount unmounts the data disk.
func (s Settings) Unmount() error { return unmount(s.mountPoint()) }

// Host shows the progress of a mount and runs programs.
type Host interface {
	// Show shows a line about a stage.
	Show(stage, text string)
	// Stage reports the progress of a stage.
	Stage(name, format string, args ...any)
	// Waits shows the current wait of a stage.
	Waits(stage, text string, l progress.Limit)
	// FailAgain reports an error and how the stage is retried. It returns true if the previous error was the same.
	FailAgain(stage string, err error, goesOn string) (held bool)
	// FailBeside reports an error that does not stop the start.
	FailBeside(stage string, err error)
	// Run runs a program and passes each output line to output. failed describes how it exited, "" for success.
	Run(ctx context.Context, name string, command []string, output func(line string)) (failed string, err error)
	// NodeOnDisk returns the name of the node whose data is mounted, "" if unknown.
	NodeOnDisk() string
}
