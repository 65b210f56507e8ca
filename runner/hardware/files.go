package hardware

import (
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// files reads the small files of a kernel. Missing and unreadable files have no content.
type files struct{ fs.FS }

// mostRead limits the bytes read from a file. The files are much smaller, or have the relevant part at the beginning.
const mostRead = 256 << 10

// read returns the first bytes of a file, or "" if it cannot be read: many device files exist but return an error.
func (f files) read(name string) string {
	file, err := f.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostRead))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// list returns the sorted names in a directory.
func (f files) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(f.FS, dir) // entries that were read before an error are used
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (f files) exists(name string) bool {
	_, err := fs.Stat(f.FS, name)
	return err == nil
}

func (f files) number(name string) int64 {
	n, err := strconv.ParseInt(f.read(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// field returns the first value of a name in a file with lines such as "name : value".
func (f files) field(file, name string) string {
	for line := range strings.Lines(f.read(file)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// settings parses lines such as NAME="value", as in os-release(5).
func settings(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = strings.Trim(value, `"'`)
		}
	}
	return all
}
