package catalog

import (
	"slices"
	"strings"

	"writ"
)

// The errors below are those of drivers that a plan predicts. Both use the same functions, so they agree.

// WrongFormat returns the error for an image of a format that the argument does not accept, or nil if it does.
func (f *Field) WrongFormat(image writ.ResourceID, format string) *writ.Error {
	if len(f.Formats) == 0 || slices.Contains(f.Formats, format) {
		return nil
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "%s needs an image of format %s, and %s is %s", f.Name,
		strings.Join(f.Formats, " or "), image, format).
		WithHint("fetch it with the format of its file under another name")
}

// DiskInUse returns the error of a machine that would get a volume of another machine.
func DiskInUse(user writ.ResourceID, volume string) *writ.Error {
	return writ.Errorf(writ.CodeResourceConflict,
		"%s uses the volume %q, and only one machine at a time can use a volume", user, volume).
		WithHint("detach it there, or clone it")
}

// VolumeInUse returns the error of an operation for which a volume must have no user.
func VolumeInUse(user, volume writ.ResourceID) *writ.Error {
	return writ.Errorf(writ.CodeResourceBusy, "%s uses the %s", user, volume).
		WithHint("detach it there, or delete the %s first", user)
}
