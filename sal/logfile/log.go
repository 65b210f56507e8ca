// Package logfile reads the output of a resource as one numbered stream, while it is written and rotated. A driver's
// program writes a file, PutAside starts another file, and the positions of readers stay valid. The package replaces
// secrets in the text that it returns. It is independent of drivers, and the writers decide when to rotate.
package logfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"writ/sal/catalog"
)

// Log reads the log files of a resource. The file Path is being written. A file Path.N-M is an earlier file, renamed by
// PutAside. It contains the bytes N to M of the whole log. So every byte keeps its number, even after files are renamed
// or removed, or the space of old bytes is freed by a hole in the file.
type Log struct {
	Path string
	// Stream distinguishes the log from all others, including the log of an earlier resource with the same name. Part
	// treats a position of another stream as lost.
	Stream string
	// Secrets are replaced in parts of the log. A part never begins or ends inside a secret.
	Secrets Secrets
}

// maxPart limits the text of one part of a log, in bytes. The whole result of an operation may have 64 KiB.
const maxPart = 48 << 10

// Part reads the part of the log after want.After, or the last lines if want.After is empty. If the position is
// unknown, it reads from the beginning and sets Lost. A log without files is empty.
func (l *Log) Part(want *catalog.LogPart) (catalog.LogText, error) {
	v, err := l.open()
	if err != nil {
		return catalog.LogText{}, err
	}
	defer v.close()
	most := cmp.Or(want.MaxKiB<<10, maxPart)
	if want.After == "" {
		from, err := l.tail(v, want.Lines, most)
		if err != nil {
			return catalog.LogText{}, err
		}
		return l.read(v, from, want.Lines, most)
	}
	stream, number, _ := strings.Cut(want.After, "-")
	from, err := strconv.ParseInt(number, 10, 64)
	if err == nil && stream == l.stream() && from <= v.end() {
		return l.read(v, from, want.Lines, most)
	}
	// The position belongs to another stream, or the end of the log was lost in a power cut.
	part, err := l.read(v, 0, want.Lines, most)
	part.Lost = true
	return part, err
}

// Written reports whether Part would return text after a position. The position "" means the beginning.
func (l *Log) Written(after string) (bool, error) {
	part, err := l.Part(&catalog.LogPart{After: cmp.Or(after, l.position(0)), Lines: 1, MaxKiB: 1})
	return part.Text != "" || part.Lost || part.Next != after && after != "", err
}

// End returns the last bytes of the log, at most `most`, with secrets replaced. The program that writes the log must
// have ended.
func (l *Log) End(most int64) (string, error) {
	v, err := l.open()
	if err != nil {
		return "", err
	}
	defer v.close()
	from, err := l.Secrets.skip(v, max(0, v.end()-most)) // the text must not begin inside a secret
	if err != nil {
		return "", err
	}
	at, text, err := v.read(from, v.end()-from)
	for err == nil && len(text) > 0 && at+int64(len(text)) < v.end() { // skip a removed range
		at, text, err = v.read(at+int64(len(text)), most)
	}
	if err != nil {
		return "", err
	}
	told := l.Secrets.Hide(text)
	told = told[max(0, len(told)-int(most)):]
	for len(told) > 0 && !utf8.RuneStart(told[0]) {
		told = told[1:]
	}
	return told, nil
}

// stream returns a short hash of Stream, which positions contain.
func (l *Log) stream() string {
	sum := sha256.Sum256([]byte("log\x00" + l.Stream))
	return fmt.Sprintf("%x", sum[:6])
}

func (l *Log) position(at int64) string { return fmt.Sprintf("%s-%d", l.stream(), at) }

// read returns the text that begins at the position `from`, in whole lines where possible.
func (l *Log) read(v *view, from, lines, most int64) (catalog.LogText, error) {
	at, text, err := v.read(from, most+int64(l.Secrets.longest())+utf8.UTFMax)
	if err != nil {
		return catalog.LogText{}, err
	}
	lost := at > from
	if lost { // the first line may be incomplete
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			at, text = at+int64(i)+1, text[i+1:]
		}
	}
	clear, err := l.Secrets.skip(v, at)
	if err != nil {
		return catalog.LogText{}, err
	}
	if clear != at {
		if at, text, err = v.read(clear, most+int64(l.Secrets.longest())+utf8.UTFMax); err != nil {
			return catalog.LogText{}, err
		}
	}
	ends := at+int64(len(text)) == v.end()
	n, more := fitLines(text, lines, most, ends)
	n = l.Secrets.endBefore(text, n)
	return catalog.LogText{
		Text: l.Secrets.Hide(text[:n]), Next: l.position(at + int64(n)), Lost: lost, More: more || !ends,
	}, nil
}

// fitLines returns how many bytes of text fit into the given number of lines and into `most` bytes, and whether text
// has more. `ends` reports whether text reaches the end of the log. The last line is incomplete only if it is too long
// or at the end of the log.
func fitLines(text []byte, lines, most int64, ends bool) (n int, more bool) {
	n = min(len(text), int(most))
	for i, line := 0, int64(0); i < n; i++ {
		if text[i] == '\n' {
			if line++; line == lines {
				n = i + 1
			}
		}
	}
	more = n < len(text)
	if i := bytes.LastIndexByte(text[:n], '\n'); i >= 0 && (more || !ends) {
		n = i + 1
	}
	return n, more
}

// tail returns the position at which the last `lines` lines of a log begin. The position is at most `most` bytes before
// the end.
func (l *Log) tail(v *view, lines, most int64) (int64, error) {
	around := int64(l.Secrets.longest()) + 1
	first := max(0, v.end()-most)
	at, text, err := v.read(max(0, first-around), most+around)
	for err == nil && len(text) > 0 && at+int64(len(text)) < v.end() { // skip a removed range
		at, text, err = v.read(at+int64(len(text)), most+around)
	}
	if err != nil {
		return 0, err
	}
	from := min(int(max(0, first-at)), len(text))
	if from == 0 && at > 0 || from > 0 && text[from-1] != '\n' { // in the middle of a line
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 && from+i+1 < len(text) {
			from += i + 1
		}
	}
	for i, n := len(text)-2, int64(0); i >= from; i-- {
		if text[i] == '\n' {
			if n++; n == lines {
				from = i + 1
			}
		}
	}
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return at + int64(from), nil
}

// PutAside renames the current file, so that the next writer starts with an empty one. It removes the files that it
// renamed earlier.
//
//failpoint:none the caller names the write, or it is the log of a container
func (l *Log) PutAside() error {
	info, err := os.Lstat(l.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	before, err := l.earlierParts()
	if err != nil {
		return err
	}
	begin := int64(0)
	if len(before) > 0 {
		begin = before[len(before)-1].until
	}
	if err := os.Rename(l.Path, fmt.Sprintf("%s.%d-%d", l.Path, begin, begin+info.Size())); err != nil {
		return err
	}
	return removeAll(before)
}

// Remove deletes the log and its older parts.
func (l *Log) Remove() error {
	all, err := l.earlierParts()
	if err != nil {
		return err
	}
	return removeAll(append(all, piece{path: l.Path}))
}

//failpoint:none the caller names the write, or it is the log of a container
func removeAll(pieces []piece) (err error) {
	for _, p := range pieces {
		if e := os.Remove(p.path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// earlierParts returns the files that PutAside renamed, oldest first.
func (l *Log) earlierParts() ([]piece, error) {
	entries, err := os.ReadDir(filepath.Dir(l.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []piece
	for _, e := range entries {
		numbers, _ := strings.CutPrefix(e.Name(), filepath.Base(l.Path)+".")
		begin, until, _ := strings.Cut(numbers, "-")
		p := piece{path: filepath.Join(filepath.Dir(l.Path), e.Name())}
		p.begin, err = strconv.ParseInt(begin, 10, 64)
		if err == nil {
			p.until, err = strconv.ParseInt(until, 10, 64)
		}
		if err == nil && p.until > p.begin && e.Type().IsRegular() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.until, b.until) })
	return all, nil
}

// open opens the files of a log. It starts again, at most 100 times, if PutAside runs concurrently.
func (l *Log) open() (*view, error) {
	for range 100 {
		before, err := l.earlierParts()
		if err != nil {
			return nil, err
		}
		v := &view{pieces: append(before, piece{path: l.Path})}
		err = v.open()
		if err == nil {
			after, e := l.earlierParts()
			if err = e; err == nil &&
				slices.EqualFunc(v.pieces[:len(before)], after, func(a, b piece) bool { return a.path == b.path }) {
				return v, nil
			}
		}
		v.close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is rotated too often", l.Path)
}
