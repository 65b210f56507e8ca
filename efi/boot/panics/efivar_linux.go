package panics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	efiAt     = "/sys/firmware/efi"
	efiVarsAt = efiAt + "/efivars"
	// panicsVar is the EFI variable with the count of panics. The UUID is the vendor GUID of writ.
	panicsVar = "WritPanics-6f1c2f9e-3d0b-4c5e-9a86-51f5b0d7c2aa"
)

// HasEFI reports whether EFI firmware started the kernel.
func HasEFI() bool {
	_, err := os.Stat(efiAt)
	return err == nil
}

// Load returns the count stored by the firmware.
func Load() (p Count, err error) {
	err = withVariable(func(file string) error {
		text, err := readVariable(file)
		p = parsePanics(text)
		return err
	})
	return p, err
}

// Store stores the count in the firmware.
func (p Count) Store() error {
	return withVariable(func(file string) error {
		if p == (Count{}) {
			return removeVariable(file)
		}
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return writeVariable(file, text)
	})
}

// withVariable calls `do` with the file of the EFI variable. It returns nil on a machine without EFI firmware.
func withVariable(do func(file string) error) error {
	if !HasEFI() {
		return nil
	}
	if err := unix.Mount("efivarfs", efiVarsAt, "efivarfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		""); err != nil {
		return fmt.Errorf("mount the variables of the firmware: %w", err)
	}
	defer func() { _ = unix.Unmount(efiVarsAt, 0) }() // so that no other program writes there
	return do(filepath.Join(efiVarsAt, panicsVar))
}

// The file of an EFI variable begins with four bytes of attributes: non-volatile, and accessible at boot and at run
// time.
const (
	variableHead       = 4
	variableAttributes = "\x07\x00\x00\x00"
	maxVariable        = 2 << 10
)

// readVariable returns the value of a variable, nil if it is missing.
func readVariable(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(text) < variableHead || len(text) > maxVariable:
		return nil, nil
	}
	return text[variableHead:], nil
}

// writeVariable writes a variable with a single write, as the firmware requires.
func writeVariable(file string, text []byte) error {
	if err := mutable(file); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(variableAttributes), text...), 0o600)
}

func removeVariable(file string) error {
	if err := mutable(file); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mutable clears the immutable flag. The kernel sets it to prevent accidental changes of variables.
func mutable(file string) error {
	variable, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer variable.Close()
	if err := unix.IoctlSetPointerInt(int(variable.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
		return fmt.Errorf("make %s writable: %w", file, err)
	}
	return nil
}
