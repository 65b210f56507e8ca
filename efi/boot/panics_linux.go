package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"writ/efi/boot/devices"
	"writ/efi/progress"
)

const (
	pstoreAt  = "/sys/fs/pstore"
	efiAt     = "/sys/firmware/efi"
	efiVarsAt = efiAt + "/efivars"
	// panicsVar is the EFI variable with the count of panics. The UUID is the vendor GUID of writ.
	panicsVar = "WritPanics-6f1c2f9e-3d0b-4c5e-9a86-51f5b0d7c2aa"
)

// lastEnd describes how the previous run ended, as far as the firmware knows.
type lastEnd struct {
	*Machine
	reporter
	logs *logs

	panics
	before  panics    // as stored
	ifReset panics    // the count to use if the hardware watchdog ended the previous run
	over    sync.Once // resets the count once
	files   []string  // records to delete once the log is on disk
}

// read checks whether the kernel panicked at the end of the previous run, and reports and counts the panic. It
// runs before the device modules are loaded, because one of them may cause the panic.
func (e *lastEnd) read(loader *devices.Loader) {
	if hasEFI() && loader != nil {
		if _, err := loader.Named([]string{"efivarfs", "efi_pstore"}); err != nil {
			e.Fail(progress.StagePanic, err)
		}
	}
	if err := unix.Mount("pstore", pstoreAt, "pstore", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil &&
		!errors.Is(err, unix.EBUSY) {
		return // this kernel has no pstore
	}
	records, files, err := readRecords(os.DirFS(pstoreAt))
	if err != nil {
		e.Fail(progress.StagePanic, fmt.Errorf("read the kernel's panic log: %w", err))
	}
	found := crashes(records)
	if e.before, err = loadPanics(); err != nil {
		e.Fail(progress.StagePanic, fmt.Errorf("read the count of panics of the kernel: %w", err))
	}
	was := e.before
	e.count(was.after(found))
	e.ifReset = was.afterReset()
	for _, c := range found {
		e.logs.crash(c)
		e.files = c.files // only the last crash stays: firmware storage is small
	}
	e.deleteWords(slices.DeleteFunc(files, func(name string) bool { return slices.Contains(e.files, name) }))
	if e.Reason != "" { // the last crash is new
		e.tell(found[len(found)-1])
	}
}

// tell reports how the previous run ended. A held machine reports it later, where it stops.
func (e *lastEnd) tell(c crash) {
	for _, line := range c.lastWords() {
		e.line("  kernel: " + e.Redact(Redacted(line)))
	}
	e.status.also(field{"last start", e.Reason})
	if !e.held() {
		e.Fail(progress.StagePanic, e.trouble())
	}
}

// hasEFI reports whether EFI firmware started the kernel.
func hasEFI() bool {
	_, err := os.Stat(efiAt)
	return err == nil
}

// loadPanics returns the count stored by the firmware.
func loadPanics() (p panics, err error) {
	err = withVariable(func(file string) error {
		text, err := readVariable(file)
		p = parsePanics(text)
		return err
	})
	return p, err
}

// keep stores the count in the firmware.
func (p panics) keep() error {
	return withVariable(func(file string) error {
		if p == (panics{}) {
			return removeVariable(file)
		}
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return writeVariable(file, text)
	})
}

// withVariable calls do with the file of the EFI variable. Without EFI firmware it does nothing.
func withVariable(do func(file string) error) error {
	if !hasEFI() {
		return nil
	}
	if err := unix.Mount("efivarfs", efiVarsAt, "efivarfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		""); err != nil {
		return fmt.Errorf("mount the variables of the firmware: %w", err)
	}
	defer func() { _ = unix.Unmount(efiVarsAt, 0) }() // so that other programs cannot change variables
	return do(filepath.Join(efiVarsAt, panicsVar))
}

// count sets the current count and stores it in the firmware if it changed.
func (e *lastEnd) count(now panics) {
	e.panics = now
	if now == e.before {
		return
	}
	e.before = now
	if err := now.keep(); err != nil {
		e.Fail(progress.StagePanic,
			fmt.Errorf("count the kernel panic, without which the machine is not held: %w", err))
	}
}

// startsOver resets the count, because this run ends in an orderly way or has lasted long enough.
func (e *lastEnd) startsOver() {
	if e.Times == 0 {
		return
	}
	e.over.Do(func() {
		if err := (panics{ID: e.ID}).keep(); err != nil {
			e.Fail(progress.StagePanic, fmt.Errorf("reset the count of kernel panics: %w", err))
		}
	})
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

// mutable clears the immutable flag, with which the kernel protects variables against accidents.
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

// forget deletes the kept panic records. The log has stored them.
func (e *lastEnd) forget() {
	e.deleteWords(e.files)
	e.files = nil
}

// deleteWords deletes panic records.
func (e *lastEnd) deleteWords(files []string) {
	for _, name := range files {
		if err := os.Remove(filepath.Join(pstoreAt, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.Fail(progress.StagePanic, fmt.Errorf("delete the kernel's panic log: %w", err))
			return
		}
	}
}
