package daemon

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

// maxAssignments bounds a file with the settings of single machines.
const maxAssignments = 4 << 20

// AssignmentsFile has the settings of single machines, and is read again when it has changed. What it said before counts while it cannot be read.
type AssignmentsFile struct {
	Path  string
	Check func(words []string) error // refuses settings that no machine can use, or must not be told

	mu   sync.Mutex
	made time.Time // of the file that was read, with its size
	size int64
	last *bootserver.Assignments
	err  error
}

// Read returns what the file says, or said last with the reason why it cannot be read. A file that is not there says nothing.
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
	return writ.Errorf(writ.CodeUsage, "the settings of machines in %s cannot be used: %s", f.Path, text).WithHint("%s", e.Hint)
}

// ReadAssignments returns the text of such a file.
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
