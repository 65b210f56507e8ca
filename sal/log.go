package sal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"writ"
	"writ/sal/catalog"
)

// Logging is a driver whose resources write logs.
type Logging interface {
	Driver
	// Written reports whether a Look at the resource's log would return text after a position; "" is the beginning. It
	// is cheap and read-only, and may be called at any time, even during an operation on the resource.
	Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error)
}

// Log reads the log files of a resource. The file Path is being written. A file Path.N-M is an earlier part, which was
// put aside: bytes N to M of the whole log. So every byte keeps its number, even after parts are put aside, removed, or
// punched out of the files.
type Log struct {
	Path string
	// Stream distinguishes the log from all others, including the log of an earlier resource with the same name. A
	// position of another stream is invalid here.
	Stream string
	// Secrets maps each secret to its replacement. A part of a log never begins or ends inside a secret.
	Secrets map[string]string
}

// maxPart limits a part of a log, in bytes. The whole result may have 64 KiB.
const maxPart = 48 << 10

// Part reads a part of the log. A log without files is empty.
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

// Written implements Logging.Written for this log.
func (l *Log) Written(after string) (bool, error) {
	part, err := l.Part(&catalog.LogPart{After: cmp.Or(after, l.position(0)), Lines: 1, MaxKiB: 1})
	return part.Text != "" || part.Lost || part.Next != after && after != "", err
}

// stream returns the form of Stream that positions contain.
func (l *Log) stream() string {
	sum := sha256.Sum256([]byte("log\x00" + l.Stream))
	return fmt.Sprintf("%x", sum[:6])
}

func (l *Log) position(at int64) string { return fmt.Sprintf("%s-%d", l.stream(), at) }

// read returns the text from a position on, in whole lines where possible.
func (l *Log) read(v *view, from, lines, most int64) (catalog.LogText, error) {
	at, text, err := v.read(from, most+int64(l.longest())+utf8.UTFMax)
	if err != nil {
		return catalog.LogText{}, err
	}
	lost := at > from
	if lost { // the first line may be incomplete
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			at, text = at+int64(i)+1, text[i+1:]
		}
	}
	clear, err := l.skipSecret(v, at)
	if err != nil {
		return catalog.LogText{}, err
	}
	if clear != at {
		if at, text, err = v.read(clear, most+int64(l.longest())+utf8.UTFMax); err != nil {
			return catalog.LogText{}, err
		}
	}
	ends := at+int64(len(text)) == v.end()
	n, more := fitLines(text, lines, most, ends)
	n = l.endBefore(text, n)
	return catalog.LogText{
		Text: l.printable(text[:n]), Next: l.position(at + int64(n)), Lost: lost, More: more || !ends,
	}, nil
}

// fitLines returns how many bytes of text fit into the given number of lines and most bytes, and whether it leaves out
// some. The last line is incomplete only if it is too long or at the end of the log.
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

// skipSecret returns the first position at or after from that is not inside a secret. It does not trust from: a client
// may send any position, and if the beginning of a log was removed, the remaining text may start inside a secret. If
// the text may be the beginning of a secret that is not completely written yet, clear returns its start, so that read
// withholds it.
func (l *Log) skipSecret(v *view, from int64) (int64, error) {
	longest := int64(l.longest())
	if longest == 0 {
		return from, nil
	}
	least := max(0, from-longest+1)
	at, text, err := v.read(least, 2*longest)
	for err == nil && len(text) > 0 && at+int64(len(text)) < from { // skip a removed range
		at, text, err = v.read(at+int64(len(text)), 2*longest)
	}
	if err != nil || at > from || at+int64(len(text)) < from {
		return from, err
	}
	k := int(from - at)
	if at > least {
		k = max(k, l.secretTail(text))
	}
	for i := 0; i < k; i++ {
		whole, begun := l.secretAt(text[i:])
		if begun {
			return at + int64(i), nil
		}
		if i+whole > k { // another secret may begin inside this one
			k, i = i+whole, -1 // another one may have begun in between
		}
	}
	return at + int64(k), nil
}

// secretTail returns how many bytes at the start of text may be the end of a secret whose beginning was removed.
func (l *Log) secretTail(text []byte) (n int) {
	for secret := range l.Secrets {
		for i := 1; i < len(secret); i++ {
			if bytes.HasPrefix(text, []byte(secret[i:])) {
				n = max(n, len(secret)-i)
				break
			}
		}
	}
	return n
}

// secretAt returns the length of the longest secret that text begins with, and whether all of text may be the beginning
// of a longer one.
func (l *Log) secretAt(text []byte) (whole int, begun bool) {
	for secret := range l.Secrets {
		switch {
		case len(text) < len(secret):
			begun = begun || strings.HasPrefix(secret, string(text))
		case string(text[:len(secret)]) == secret:
			whole = max(whole, len(secret))
		}
	}
	return whole, begun
}

// endBefore returns the largest end up to n at which text can be cut outside characters, secrets and beginnings of
// possible secrets. A secret at the start of text is always included as a whole, even beyond n.
func (l *Log) endBefore(text []byte, n int) int {
	for i := 0; i < n; {
		whole, begun := l.secretAt(text[i:])
		switch {
		case begun:
			n = i
		case i+whole <= n:
			i += max(whole, 1)
		case i == 0:
			return whole
		default:
			n = i
		}
	}
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if !utf8.RuneStart(text[n-back]) {
			continue
		}
		if !utf8.FullRune(text[n-back : n]) {
			n -= back
		}
		break
	}
	return n
}

// tail returns the position where the last lines of a log begin, limited to most bytes.
func (l *Log) tail(v *view, lines, most int64) (int64, error) {
	around := int64(l.longest()) + 1
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

// longest returns the length of the longest secret.
func (l *Log) longest() (n int) {
	for secret := range l.Secrets {
		n = max(n, len(secret))
	}
	return n
}

// printable replaces secrets and invalid characters in text.
func (l *Log) printable(text []byte) string {
	var pairs []string
	for _, secret := range slices.SortedFunc(maps.Keys(l.Secrets),
		func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) {
		pairs = append(pairs, secret, l.Secrets[secret]) // longest first: a secret may begin with another one
	}
	told := strings.NewReplacer(pairs...).Replace(string(text))
	return strings.ToValidUTF8(strings.ReplaceAll(told, "\x00", ""), "?")
}

// PutAside renames the current file, so that the next writer starts with an empty one. It removes the files that were
// put aside earlier.
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

// piece is a file of a log. It holds bytes begin to until of the log; end is smaller than until if the file was
// truncated.
type piece struct {
	path              string
	file              *os.File
	begin, until, end int64
}

// earlierParts returns the files that were put aside, in order.
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

// view is a snapshot of a log: consecutive pieces, of which the last may grow.
type view struct{ pieces []piece }

// open opens the files of a log. It starts again if PutAside runs concurrently.
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

func (v *view) open() error {
	for i := range v.pieces {
		p, last := &v.pieces[i], i == len(v.pieces)-1
		if last && i > 0 {
			p.begin = v.pieces[i-1].until
		}
		p.end = p.begin
		f, err := openFile(p.path)
		if last && errors.Is(err, fs.ErrNotExist) { // no writer since the last PutAside
			return nil
		}
		if err != nil {
			return err
		}
		p.file = f
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if p.end += info.Size(); !last {
			p.end = min(p.end, p.until)
		}
	}
	return nil
}

func (v *view) close() {
	for _, p := range v.pieces {
		if p.file != nil {
			_ = p.file.Close()
		}
	}
}

func (v *view) end() int64 { return v.pieces[len(v.pieces)-1].end }

// read reads at most most bytes from a position on. It starts with the first byte that still exists and stops at the
// next removed range.
func (v *view) read(from, most int64) (at int64, text []byte, err error) {
	at = from
	for _, p := range v.pieces {
		here := at + int64(len(text))
		if p.file == nil || here >= p.end || most == 0 {
			continue
		}
		part, there, err := p.read(max(here, p.begin), most)
		if err != nil {
			return 0, nil, err
		}
		if there > here {
			if len(text) > 0 {
				break
			}
			at = there
		}
		text, most = append(text, part...), most-int64(len(part))
	}
	return at, text, nil
}

// maxBlock limits the zeros at the start of the remaining data that are attributed to a partly punched block, in bytes.
// No file system has larger blocks.
const maxBlock = 64 << 10

// read reads at most most bytes of a piece from a position on, and returns where they begin. It skips punched ranges:
// holes, and zeros up to the end of the block. Other zeros are content.
func (p *piece) read(from, most int64) (text []byte, at int64, err error) {
	first := dataFrom(p.file, 0)
	for at = p.begin + dataFrom(p.file, from-p.begin); at < p.end; {
		whole := make([]byte, min(most, p.end-at))
		n, err := p.file.ReadAt(whole, at-p.begin)
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		text = whole[:n]
		if first > 0 && at-p.begin < first+maxBlock {
			text = bytes.TrimLeft(text, "\x00")
		}
		at += int64(n - len(text))
		if len(text) > 0 || n == 0 {
			return text, at, nil
		}
	}
	return nil, p.end, nil
}
