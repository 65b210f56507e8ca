package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// view holds the files of a log at one time, as consecutive pieces. The last piece may grow.
type view struct{ pieces []piece }

// piece is a file of a log. It contains the bytes of the log from begin to end. For a file that PutAside renamed, until
// is the end that its name contains. If the file was truncated later, end is smaller than until.
type piece struct {
	path              string
	file              *os.File
	begin, until, end int64
}

// open opens the pieces and sets end. If the file of the last piece is missing, the piece is empty.
//
//failpoint:none it opens for reading
func (v *view) open() error {
	for i := range v.pieces {
		p, last := &v.pieces[i], i == len(v.pieces)-1
		if last && i > 0 {
			p.begin = v.pieces[i-1].until
		}
		p.end = p.begin
		f, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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

// read reads at most `most` bytes of the log, beginning with the first byte at or after `from` that still exists. It
// stops at the next removed range. at is the position of the first byte of text.
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

// read reads at most `most` bytes of a piece at or after the position `from`, and returns the position of the first
// byte. It skips punched ranges: holes, and zeros up to the end of the block. Other zeros are content.
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
