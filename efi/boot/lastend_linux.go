package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"writ/efi/boot/devices"
	"writ/efi/boot/panics"
	"writ/efi/progress"
)

const pstoreAt = "/sys/fs/pstore"

// lastEnd describes how the previous run ended, according to the data that the firmware has stored.
type lastEnd struct {
	*Machine
	reporter
	logs *logs

	panics.Count
	before  panics.Count // the count that the firmware has stored
	ifReset panics.Count // the count to use if the hardware watchdog ended the previous run
	over    sync.Once    // resets the count once
	files   []string     // records to delete once the log is on disk
}

// read checks whether the kernel panicked at the end of the previous run, and reports and counts the panic. It runs
// before the device modules are loaded, because a module may have caused the panic.
func (e *lastEnd) read(loader *devices.Loader) {
	if panics.HasEFI() && loader != nil {
		if _, err := loader.Named([]string{"efivarfs", "efi_pstore"}); err != nil {
			e.Fail(progress.StagePanic, err)
		}
	}
	if err := unix.Mount("pstore", pstoreAt, "pstore", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil &&
		!errors.Is(err, unix.EBUSY) {
		return // this kernel has no pstore
	}
	found, files, err := panics.Read(os.DirFS(pstoreAt))
	if err != nil {
		e.Fail(progress.StagePanic, fmt.Errorf("read the kernel's panic log: %w", err))
	}
	if e.before, err = panics.Load(); err != nil {
		e.Fail(progress.StagePanic, fmt.Errorf("read the count of panics of the kernel: %w", err))
	}
	was := e.before
	e.count(was.After(found))
	e.ifReset = was.AfterReset()
	for _, c := range found {
		e.logs.crash(c)
		e.files = c.Files // keep only the records of the last crash, because firmware storage is small
	}
	e.deleteWords(slices.DeleteFunc(files, func(name string) bool { return slices.Contains(e.files, name) }))
	if e.Reason != "" { // the last crash is new
		e.reportCrash(found[len(found)-1])
	}
}

// reportCrash reports how the previous run ended. If the machine is held, boot reports it later.
func (e *lastEnd) reportCrash(c panics.Crash) {
	for _, line := range c.LastWords() {
		e.line("  kernel: " + e.Redact(Redacted(line)))
	}
	e.also("last start", e.Reason)
	if !e.Held() {
		e.Fail(progress.StagePanic, e.Trouble())
	}
}

// count sets the current count and stores it in the firmware if it changed.
func (e *lastEnd) count(now panics.Count) {
	e.Count = now
	if now == e.before {
		return
	}
	e.before = now
	if err := now.Store(); err != nil {
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
		if err := (panics.Count{ID: e.ID}).Store(); err != nil {
			e.Fail(progress.StagePanic, fmt.Errorf("reset the count of kernel panics: %w", err))
		}
	})
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

// crash stores the kernel log of a panic. It redacts the token, because the kernel log may contain the command line.
func (l *logs) crash(c panics.Crash) {
	for _, line := range c.Lines {
		level := "error"
		switch {
		case line.Priority > 4:
			level = "info"
		case line.Priority == 4:
			level = "warn"
		}
		at := c.At.Add(line.After - c.After)
		l.add(sourceKernel, level,
			fmt.Sprintf("before the restart, [%.6f] %s", line.After.Seconds(), clean(Redacted(line.Text))), at)
	}
}
