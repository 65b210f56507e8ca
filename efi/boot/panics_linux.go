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
	// panicsVar is the variable of the firmware that has the count of panics. The UUID is that of variables of writ.
	panicsVar = "WritPanics-6f1c2f9e-3d0b-4c5e-9a86-51f5b0d7c2aa"
)

// lastEnd is how the start before this one ended, as far as the firmware knows it.
type lastEnd struct {
	panics
	before  panics    // as it is kept
	ifReset panics    // the count if the watchdog of the hardware turns out to have ended the start before
	over    sync.Once // the count begins again
	files   []string  // with the last words of the kernel, until the log has its place on the disk
}

// readLastEnd finds out whether the kernel panicked at the end of the start before, tells that, and counts it. It comes before the modules of
// devices, because one of these may be what makes the kernel panic.
func (m *machine) readLastEnd() {
	if hasEFI() && m.loader != nil {
		if _, err := m.loader.named([]string{"efivarfs", "efi_pstore"}); err != nil {
			m.fail(progress.StagePanic, err)
		}
	}
	if err := unix.Mount("pstore", pstoreAt, "pstore", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return // a kernel without it keeps nothing
	}
	records, files, err := readRecords(os.DirFS(pstoreAt))
	if err != nil {
		m.fail(progress.StagePanic, fmt.Errorf("read the last words of the kernel: %w", err))
	}
	found := crashes(records)
	if m.lastEnd.before, err = loadPanics(); err != nil {
		m.fail(progress.StagePanic, fmt.Errorf("read the count of panics of the kernel: %w", err))
	}
	was := m.lastEnd.before
	m.count(was.after(found))
	m.lastEnd.ifReset = was.afterReset()
	for _, c := range found {
		m.logs.crash(c)
		m.lastEnd.files = c.files // the words of one are kept: firmware has little room
	}
	m.deleteWords(slices.DeleteFunc(files, func(name string) bool { return slices.Contains(m.lastEnd.files, name) }))
	if m.lastEnd.Reason != "" { // the last of them is new
		m.tellPanic(found[len(found)-1])
	}
}

// tellPanic tells how the last start ended. A machine that is held tells that where it stops.
func (m *machine) tellPanic(c crash) {
	for _, line := range c.lastWords() {
		m.line("  kernel: " + m.Redact(Redacted(line)))
	}
	m.status.also(field{"last start", m.lastEnd.Reason})
	if !m.lastEnd.held() {
		m.fail(progress.StagePanic, m.lastEnd.trouble())
	}
}

// hasEFI reports whether the kernel was started by firmware with variables.
func hasEFI() bool {
	_, err := os.Stat(efiAt)
	return err == nil
}

// loadPanics returns the count that the firmware has kept.
func loadPanics() (p panics, err error) {
	err = withVariable(func(file string) error {
		text, err := readVariable(file)
		p = parsePanics(text)
		return err
	})
	return p, err
}

// keep has the firmware keep the count.
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

// withVariable calls a function that may use the variable with the count. There is none without such firmware.
func withVariable(do func(file string) error) error {
	if !hasEFI() {
		return nil
	}
	if err := unix.Mount("efivarfs", efiVarsAt, "efivarfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the variables of the firmware: %w", err)
	}
	defer func() { _ = unix.Unmount(efiVarsAt, 0) }() // nothing else is to write there
	return do(filepath.Join(efiVarsAt, panicsVar))
}

// count counts one more end of a start, and has the firmware keep that.
func (m *machine) count(now panics) {
	m.lastEnd.panics = now
	if now == m.lastEnd.before {
		return
	}
	m.lastEnd.before = now
	if err := now.keep(); err != nil {
		m.fail(progress.StagePanic, fmt.Errorf("count the panics of the kernel, without which the machine is not held: %w", err))
	}
}

// startsOver has the count begin again: this start comes to an orderly end, or it lasts.
func (m *machine) startsOver() {
	if m.lastEnd.Times == 0 {
		return
	}
	m.lastEnd.over.Do(func() {
		if err := (panics{ID: m.lastEnd.ID}).keep(); err != nil {
			m.fail(progress.StagePanic, fmt.Errorf("begin to count the panics of the kernel again: %w", err))
		}
	})
}

// The attributes of a variable are the first four bytes of its file: it is kept without power, and the system may use it when it runs.
const (
	variableHead       = 4
	variableAttributes = "\x07\x00\x00\x00"
	maxVariable        = 2 << 10
)

// readVariable returns what a variable has, nil if there is none.
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

// writeVariable writes a variable in one piece, as the firmware wants it.
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

// mutable lets a variable be changed, which the kernel protects from accidents.
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
		return fmt.Errorf("let %s be changed: %w", file, err)
	}
	return nil
}

// forget deletes the last words of the kernel, which the log has by now.
func (m *machine) forget() {
	m.deleteWords(m.lastEnd.files)
	m.lastEnd.files = nil
}

// deleteWords deletes records of the kernel.
func (m *machine) deleteWords(files []string) {
	for _, name := range files {
		if err := os.Remove(filepath.Join(pstoreAt, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.fail(progress.StagePanic, fmt.Errorf("delete the last words of the kernel: %w", err))
			return
		}
	}
}

// loadFew loads what a machine needs that is only to show why it is held, and to be turned off.
func (m *machine) loadFew() {
	if m.loader == nil {
		return
	}
	names := []string{"button", "evdev"}
	if _, err := m.loader.named(names); err != nil {
		m.fail("modules", err)
		return
	}
	m.stage("modules", "%s only", strings.Join(names, " and "))
}
