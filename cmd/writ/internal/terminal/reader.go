package terminal

import (
	"context"
	"errors"
	"io"
	"os"
)

// reader reads the input of a command.
type reader struct {
	In *os.File
	// Until cancels each read. Questions and standard input would otherwise block after an interrupt.
	Until context.Context
}

// Input returns at most `most` bytes of standard input, up to its end.
func (r *reader) Input(most int64) ([]byte, error) {
	return r.read(func() ([]byte, error) { return io.ReadAll(io.LimitReader(r.In, most)) })
}

// ReadFile returns at most most+1 bytes of a file, so the caller can detect a longer one. Until ends the read of a pipe
// without a writer.
func (r *reader) ReadFile(path string, most int64) ([]byte, error) {
	return r.read(func() ([]byte, error) {
		f, err := os.Open(path) // blocks until a pipe has a writer
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, most+1))
	})
}

// line returns the next line of input without its line end, at most `most` bytes.
func (r *reader) line(most int) ([]byte, error) {
	return r.read(func() ([]byte, error) {
		var typed []byte
		for one := make([]byte, 1); len(typed) < most; typed = append(typed, one[0]) {
			n, err := r.In.Read(one)
			switch {
			case n == 1 && one[0] != '\n':
				continue
			case n == 1, errors.Is(err, io.EOF) && len(typed) > 0:
				return typed, nil
			case errors.Is(err, io.EOF):
				return nil, ErrEnded
			}
			return nil, err
		}
		return typed, nil
	})
}

// read returns the result of the function `from`, or the error of Until if that ends first. The read itself cannot be
// cancelled: it remains blocked until the process exits and consumes further input.
func (r *reader) read(from func() ([]byte, error)) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := from()
		done <- result{text, err}
	}()
	select {
	case <-r.Until.Done():
		return nil, r.Until.Err()
	case read := <-done:
		return read.text, read.err
	}
}
