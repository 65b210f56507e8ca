package bootd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"writ"
	"writ/efi/bootserver"
)

// maxAssignments limits the file with the settings of single machines, in bytes.
const maxAssignments = 4 << 20

// AssignmentsFile reads the settings of single machines from a file, and again after each change. While the file is
// unreadable or invalid, the last valid settings apply.
type AssignmentsFile struct {
	Path  string
	Check func(words []string) error // rejects invalid or forbidden settings

	mu   sync.Mutex
	made time.Time // modification time of the file that was read
	size int64
	last *bootserver.Assignments
	err  error
}

// Read returns the settings, or the last valid ones with the error. A missing file means no settings.
func (f *AssignmentsFile) Read() (*bootserver.Assignments, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.made, f.size, f.last, f.err = time.Time{}, 0, nil, nil
		return nil, nil
	case err != nil:
		return f.last, f.failed(err)
	case f.made.Equal(info.ModTime()) && f.size == info.Size():
		return f.last, f.err
	}
	text, err := ReadAssignments(f.Path)
	if err != nil {
		return f.last, f.failed(err)
	}
	f.made, f.size = info.ModTime(), info.Size()
	all, err := bootserver.ParseAssignments(text, f.Check)
	if f.err = nil; err != nil {
		f.err = f.failed(err)
		return f.last, f.err
	}
	f.last = all
	return all, nil
}

func (f *AssignmentsFile) failed(err error) error {
	e := writ.AsError(err)
	text := e.Message
	if e.Code != writ.CodeUsage {
		text = err.Error()
	}
	return writ.Errorf(writ.CodeUsage, "the settings of machines in %s cannot be used: %s", f.Path, text).
		WithHint("%s", e.Hint)
}

// ReadAssignments returns the text of a file with settings.
func ReadAssignments(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAssignments+1))
	if err == nil && len(text) > maxAssignments {
		err = fmt.Errorf("the file has more than %d bytes", maxAssignments)
	}
	return string(text), err
}
