//go:build !linux || !cgo

package btrfs

import (
	"errors"

	"writ"
	"writ/sal"
)

// Usable returns DRIVER_MISSING, because this program was built without support for btrfs.
func Usable(string) error {
	return writ.Errorf(writ.CodeDriverMissing, "this program was built without support for btrfs").
		WithHint("use the build for Linux with cgo, or plain directories")
}

var errNoSize = errors.New("the subvolume has no size")

const (
	readOnly = true
	writable = false
)

func isSubvolume(string) (bool, error)             { return false, Usable("") }
func createSubvolume(string) error                 { return Usable("") }
func snapshotSubvolume(string, string, bool) error { return Usable("") }
func deleteSubvolume(string) error                 { return Usable("") }
func deleteNested(string, uint64, nested) error    { return Usable("") }
func nestedIn(string, uint64) ([]nested, error)    { return nil, Usable("") }
func subvolumeID(string) (uint64, error)           { return 0, Usable("") }
func exchange(string, string) error                { return Usable("") }
func boundOf(string) (sal.Bound, error)            { return sal.Bound{}, Usable("") }
func setBound(string, sal.Bound) error             { return Usable("") }
func quotasOn(string) (bool, error)                { return false, Usable("") }
func enableQuota(string, bool) error               { return Usable("") }
func inconsistent(string) (bool, error)            { return false, Usable("") }
func rescanning(string) (bool, error)              { return false, Usable("") }
func rescan(string) error                          { return Usable("") }
func simpleQuota(string) (bool, error)             { return false, Usable("") }
func limitGroup(string, uint64, int64) error       { return Usable("") }
func makeGroup(string, uint64) error               { return Usable("") }
func joinGroup(string, uint64, uint64) error       { return Usable("") }
func groupLimit(string, uint64) (int64, error)     { return 0, Usable("") }

func nestedPath(string, uint64, nested) (string, error) { return "", Usable("") }

func kernelRelease() string { return "" }
