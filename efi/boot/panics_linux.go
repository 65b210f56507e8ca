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
	files []string // with the last words of the kernel, until the log has its place on the disk
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
	if m.lastEnd.panics, err = countPanics(found); err != nil {
		m.fail(progress.StagePanic, fmt.Errorf("count the panics of the kernel, so that the machine is not held: %w", err))
	}
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
		m.line("  kernel: " + Redacted(line))
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

// countPanics counts the crashes that are there, beside those that the firmware has kept.
func countPanics(found []crash) (panics, error) {
	if !hasEFI() {
		return panics{}.after(found), nil
	}
	if err := unix.Mount("efivarfs", efiVarsAt, "efivarfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return panics{}.after(found), fmt.Errorf("mount the variables of the firmware: %w", err)
	}
	defer func() { _ = unix.Unmount(efiVarsAt, 0) }() // nothing else is to write there
	file := filepath.Join(efiVarsAt, panicsVar)
	text, err := readVariable(file)
	if err != nil {
		return panics{}.after(found), err
	}
	was := parsePanics(text)
	now := was.after(found)
	switch {
	case now == was:
		return now, nil
	case now == panics{}:
		return now, removeVariable(file)
	}
	if text, err = json.Marshal(now); err != nil {
		return now, err
	}
	return now, writeVariable(file, text)
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
	return os.Remove(file)
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

// crash keeps the last words of a kernel. They may have its command line, and with it the token.
func (l *logs) crash(c crash) {
	for _, line := range c.lines {
		level := "error"
		switch {
		case line.priority > 4:
			level = "info"
		case line.priority == 4:
			level = "warn"
		}
		at := c.at.Add(line.after - c.after)
		l.add(sourceKernel, level, fmt.Sprintf("before the restart, [%.6f] %s", line.after.Seconds(), clean(Redacted(line.text))), at)
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
