package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

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
	panics
	before  panics    // as stored
	ifReset panics    // the count to use if the hardware watchdog ended the previous run
	over    sync.Once // resets the count once
	files   []string  // records to delete once the log is on disk
}

// readLastEnd checks whether the kernel panicked at the end of the previous run, and reports and counts the panic. It
// runs before the device modules are loaded, because one of them may cause the panic.
func (m *machine) readLastEnd() {
	if hasEFI() && m.loader != nil {
		if _, err := m.loader.Named([]string{"efivarfs", "efi_pstore"}); err != nil {
			m.Fail(progress.StagePanic, err)
		}
	}
	if err := unix.Mount("pstore", pstoreAt, "pstore", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil &&
		!errors.Is(err, unix.EBUSY) {
		return // this kernel has no pstore
	}
	records, files, err := readRecords(os.DirFS(pstoreAt))
	if err != nil {
		m.Fail(progress.StagePanic, fmt.Errorf("read the kernel's panic log: %w", err))
	}
	found := crashes(records)
	if m.lastEnd.before, err = loadPanics(); err != nil {
		m.Fail(progress.StagePanic, fmt.Errorf("read the count of panics of the kernel: %w", err))
	}
	was := m.lastEnd.before
	m.count(was.after(found))
	m.lastEnd.ifReset = was.afterReset()
	for _, c := range found {
		m.logs.crash(c)
		m.lastEnd.files = c.files // only the last crash stays: firmware storage is small
	}
	m.deleteWords(slices.DeleteFunc(files, func(name string) bool { return slices.Contains(m.lastEnd.files, name) }))
	if m.lastEnd.Reason != "" { // the last crash is new
		m.tellPanic(found[len(found)-1])
	}
}

// tellPanic reports how the previous run ended. A held machine reports it later, where it stops.
func (m *machine) tellPanic(c crash) {
	for _, line := range c.lastWords() {
		m.line("  kernel: " + m.Redact(Redacted(line)))
	}
	m.status.also(field{"last start", m.lastEnd.Reason})
	if !m.lastEnd.held() {
		m.Fail(progress.StagePanic, m.lastEnd.trouble())
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
	defer func() { _ = unix.Unmount(efiVarsAt, 0) }() // unmounted, so that nothing else writes there
	return do(filepath.Join(efiVarsAt, panicsVar))
}

// count sets the current count and stores it in the firmware if it changed.
func (m *machine) count(now panics) {
	m.lastEnd.panics = now
	if now == m.lastEnd.before {
		return
	}
	m.lastEnd.before = now
	if err := now.keep(); err != nil {
		m.Fail(progress.StagePanic,
			fmt.Errorf("count the kernel panic, without which the machine is not held: %w", err))
	}
}

// startsOver resets the count, because this run ends in an orderly way or has lasted long enough.
func (m *machine) startsOver() {
	if m.lastEnd.Times == 0 {
		return
	}
	m.lastEnd.over.Do(func() {
		if err := (panics{ID: m.lastEnd.ID}).keep(); err != nil {
			m.Fail(progress.StagePanic, fmt.Errorf("reset the count of kernel panics: %w", err))
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
func (m *machine) forget() {
	m.deleteWords(m.lastEnd.files)
	m.lastEnd.files = nil
}

// deleteWords deletes panic records.
func (m *machine) deleteWords(files []string) {
	for _, name := range files {
		if err := os.Remove(filepath.Join(pstoreAt, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.Fail(progress.StagePanic, fmt.Errorf("delete the kernel's panic log: %w", err))
			return
		}
	}
}

// loadFew loads only the modules that a held machine needs for its power button.
func (m *machine) loadFew() {
	if m.loader == nil {
		return
	}
	names := []string{"button", "evdev"}
	if _, err := m.loader.Named(names); err != nil {
		m.Fail("modules", err)
		return
	}
	m.Stage("modules", "%s only", strings.Join(names, " and "))
}
