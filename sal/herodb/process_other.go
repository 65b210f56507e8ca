//go:build !linux

package herodb

import (
	"os"
	"syscall"

	"writ"
	"writ/internal/confine"
	"writ/sal"
)

var errSystem = writ.Errorf(writ.CodeDriverMissing, "databases are served on Linux only")

func look(int) (process, error)                                   { return process{}, errSystem }
func processesWith(string) ([]process, error)                     { return nil, nil }
func signal(pid, syscall.Signal) error                            { return errSystem }
func hold(pid) (sal.Process, error)                               { return nil, errSystem }
func spawn(confine.Cell, []string, string, *os.File) (pid, error) { return pid{}, errSystem }
func reap(int)                                                    {}
func namespaceOf(pid) string                                      { return "" }
func sameNamespace(string, string) (bool, error)                  { return false, errSystem }
func moved(pid, string) (received, sent int64, err error)         { return 0, 0, errSystem }
