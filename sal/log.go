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
	// Written reports whether a Look at the resource's log would find something behind a position, where "" is the beginning. It looks at
	// little and changes nothing, and may be called at any time, also while an operation on the resource is under way.
	Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error)
}

// Log is what a resource writes, in files: Path is what is being written, and Path.N-M is what was written before, the bytes from number N up
// to M of all that ever was. So every byte has a number for good, whatever is put aside, removed or given back to the disk meanwhile.
type Log struct {
	Path string
	// Stream tells the log from any other one, also of a resource of the same name. Positions of another stream lead nowhere here.
	Stream string
	// Secrets are what must not be told, and what is told in their place. No part of a log begins or ends within one.
	Secrets map[string]string
}

// maxPart bounds a part of a log, in bytes; a result as a whole may have 64 KiB.
const maxPart = 48 << 10

// Part reads a part of the log. A log that was never written is empty.
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
	// It is of another stream, or of a log whose end was lost with the power.
	part, err := l.read(v, 0, want.Lines, most)
	part.Lost = true
	return part, err
}

// Written is as Logging has it.
func (l *Log) Written(after string) (bool, error) {
	part, err := l.Part(&catalog.LogPart{After: cmp.Or(after, l.position(0)), Lines: 1, MaxKiB: 1})
	return part.Text != "" || part.Lost || part.Next != after && after != "", err
}

// stream is Stream as positions have it.
func (l *Log) stream() string {
	sum := sha256.Sum256([]byte("log\x00" + l.Stream))
	return fmt.Sprintf("%x", sum[:6])
}

func (l *Log) position(at int64) string { return fmt.Sprintf("%s-%d", l.stream(), at) }

// read returns what is behind a place, whole lines if possible.
func (l *Log) read(v *view, from, lines, most int64) (catalog.LogText, error) {
	at, text, err := v.read(from, most+int64(l.longest())+utf8.UTFMax)
	if err != nil {
		return catalog.LogText{}, err
	}
	lost := at > from
	if lost { // the first line may have lost its beginning
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			at, text = at+int64(i)+1, text[i+1:]
		}
	}
	clear, err := l.clear(v, at)
	if err != nil {
		return catalog.LogText{}, err
	}
	if clear != at {
		if at, text, err = v.read(clear, most+int64(l.longest())+utf8.UTFMax); err != nil {
			return catalog.LogText{}, err
		}
	}
	ends := at+int64(len(text)) == v.end()
	n, more := within(text, lines, most, ends)
	n = l.uncut(text, n)
	return catalog.LogText{Text: l.printable(text[:n]), Next: l.position(at + int64(n)), Lost: lost, More: more || !ends}, nil
}

// within returns how much of a text are so many lines and bytes, and whether that leaves something out. It is no part of a line but where a
// line is too long, or at the end of the log.
func within(text []byte, lines, most int64, ends bool) (n int, more bool) {
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

// clear returns the first place at or behind another one that is not within a secret. Anybody can make up a position, and of a log whose
// beginning is gone the first that is left may be the end of one. What may turn out to be a secret begins before the place, and is not told yet.
func (l *Log) clear(v *view, from int64) (int64, error) {
	longest := int64(l.longest())
	if longest == 0 {
		return from, nil
	}
	least := max(0, from-longest+1)
	at, text, err := v.read(least, 2*longest)
	for err == nil && len(text) > 0 && at+int64(len(text)) < from { // a part of it is gone
		at, text, err = v.read(at+int64(len(text)), 2*longest)
	}
	if err != nil || at > from || at+int64(len(text)) < from {
		return from, err
	}
	k := int(from - at)
	if at > least {
		k = max(k, l.rest(text))
	}
	for i := 0; i < k; i++ {
		whole, begun := l.secretAt(text[i:])
		if begun {
			return at + int64(i), nil
		}
		if i+whole > k {
			k, i = i+whole, -1 // another one may have begun in between
		}
	}
	return at + int64(k), nil
}

// rest is how many bytes of a text may be the end of a secret whose beginning is gone.
func (l *Log) rest(text []byte) (n int) {
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

// secretAt returns how long the longest secret is that a text begins with, and whether the text as a whole may be the beginning of one.
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

// uncut returns where a text has to end that would end at n within a character or a secret, or with what may turn out to be the beginning of
// one. A secret that a text begins with is part of it as a whole, however long it is.
func (l *Log) uncut(text []byte, n int) int {
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

// tail returns where the last lines of a log begin, as far as a part can hold them.
func (l *Log) tail(v *view, lines, most int64) (int64, error) {
	around := int64(l.longest()) + 1
	first := max(0, v.end()-most)
	at, text, err := v.read(max(0, first-around), most+around)
	for err == nil && len(text) > 0 && at+int64(len(text)) < v.end() { // a part of it is gone: what is behind that counts
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

// longest is how many bytes a secret has at most.
func (l *Log) longest() (n int) {
	for secret := range l.Secrets {
		n = max(n, len(secret))
	}
	return n
}

// printable is a text as a value.
func (l *Log) printable(text []byte) string {
	var pairs []string
	for _, secret := range slices.SortedFunc(maps.Keys(l.Secrets), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) {
		pairs = append(pairs, secret, l.Secrets[secret]) // the longest first: a secret may begin with another
	}
	told := strings.NewReplacer(pairs...).Replace(string(text))
	return strings.ToValidUTF8(strings.ReplaceAll(told, "\x00", ""), "?")
}

// PutAside lets whoever writes the log next begin with an empty file. What was put aside before is removed.
func (l *Log) PutAside() error {
	info, err := os.Lstat(l.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	before, err := l.aside()
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

// Remove removes the log.
func (l *Log) Remove() error {
	all, err := l.aside()
	if err != nil {
		return err
	}
	return removeAll(append(all, piece{path: l.Path}))
}

func removeAll(pieces []piece) (err error) {
	for _, p := range pieces {
		if e := os.Remove(p.path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// piece is a file of a log, with the numbers of the first byte in it, of the one behind what it should have, and of the one behind what it has.
type piece struct {
	path              string
	file              *os.File
	begin, until, end int64
}

// aside returns what was put aside, in order.
func (l *Log) aside() ([]piece, error) {
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

// view is a log at one moment: pieces one behind the other, the last of which may grow.
type view struct{ pieces []piece }

// open opens the files of a log, again if some are put aside just then.
func (l *Log) open() (*view, error) {
	for range 100 {
		before, err := l.aside()
		if err != nil {
			return nil, err
		}
		v := &view{pieces: append(before, piece{path: l.Path})}
		err = v.open()
		if err == nil {
			after, e := l.aside()
			if err = e; err == nil && slices.EqualFunc(v.pieces[:len(before)], after, func(a, b piece) bool { return a.path == b.path }) {
				return v, nil
			}
		}
		v.close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is put aside again and again", l.Path)
}

func (v *view) open() error {
	for i := range v.pieces {
		p, last := &v.pieces[i], i == len(v.pieces)-1
		if last && i > 0 {
			p.begin = v.pieces[i-1].until
		}
		p.end = p.begin
		f, err := openFile(p.path)
		if last && errors.Is(err, fs.ErrNotExist) { // nobody has written since the last one was put aside
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

// read reads at most so many bytes behind a place, beginning with the first that is there. Where more is gone it ends.
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

// maxBlock is how far the zeros may go, in bytes, that are left of a block of which a part was given back: no file system has larger ones.
const maxBlock = 64 << 10

// read reads at most so many bytes of a piece behind a place, and says where they begin: what was given back to the disk has no data, and
// zeros up to the end of a block. Other zeros were written.
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
