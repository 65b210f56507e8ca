package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// ErrEnded is the error of a question if the input ends before anything is typed, for example by Ctrl-D.
var ErrEnded = errors.New("the input ended")

// Limits on the bytes of an answer. Further input is left for the next read.
const (
	maxAnswer = 16
	maxHidden = 64 << 10
)

// Passphrase asks for a passphrase. It returns an error if the terminal is not interactive.
func (t *Terminal) Passphrase(what string) ([]byte, error) {
	if !t.Interactive() {
		return nil, errors.New("no terminal to ask for the passphrase; load the key into an ssh-agent instead")
	}
	return t.Hidden("Passphrase for " + what)
}

// Hidden asks a question without echoing the answer. The terminal must be interactive. The error is ErrEnded or the
// error of Until. Hidden restores the echo before it returns, also after an interrupt.
func (t *Terminal) Hidden(what string) ([]byte, error) {
	fmt.Fprintf(t.Err, "%s: ", Clean(what))
	defer fmt.Fprintln(t.Err)
	before, err := term.GetState(t.In.Fd())
	if err != nil {
		return nil, fmt.Errorf("disable the echo: %w", err)
	}
	silent := *before
	silent.Lflag = silent.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	silent.Iflag |= unix.ICRNL
	if err := term.SetState(t.In.Fd(), &silent); err != nil {
		return nil, fmt.Errorf("disable the echo: %w", err)
	}
	defer func() { _ = term.SetState(t.In.Fd(), before) }() // it fails only if the terminal is gone
	return t.line(maxHidden)
}

// Confirm asks a yes/no question and reports whether the answer is yes. The terminal must be interactive. The end of
// the input counts as no. The error is the error of Until.
func (t *Terminal) Confirm(question string) (bool, error) {
	fmt.Fprintf(t.Err, "%s [y/N] ", Clean(question))
	answer, err := t.line(maxAnswer)
	if err != nil { // the cursor is still on the line of the question
		fmt.Fprintln(t.Err)
	}
	if err != nil && !errors.Is(err, ErrEnded) {
		return false, err
	}
	switch strings.ToLower(string(bytes.TrimSpace(answer))) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// Input returns at most most bytes of standard input, up to its end.
func (t *Terminal) Input(most int64) ([]byte, error) {
	return t.read(func() ([]byte, error) { return io.ReadAll(io.LimitReader(t.In, most)) })
}

// ReadFile returns at most most+1 bytes of a file, so the caller can detect a longer one. Until ends the read of a pipe
// without a writer.
func (t *Terminal) ReadFile(path string, most int64) ([]byte, error) {
	return t.read(func() ([]byte, error) {
		f, err := os.Open(path) // blocks until a pipe has a writer
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, most+1))
	})
}

// line returns the next line of input without its line end, at most most bytes.
func (t *Terminal) line(most int) ([]byte, error) {
	return t.read(func() ([]byte, error) {
		var typed []byte
		for one := make([]byte, 1); len(typed) < most; typed = append(typed, one[0]) {
			n, err := t.In.Read(one)
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

// read returns the result of from, or the error of Until if that ends first. The read itself cannot be cancelled: it
// remains blocked until the process exits and consumes further input.
func (t *Terminal) read(from func() ([]byte, error)) ([]byte, error) {
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
	case <-t.Until.Done():
		return nil, t.Until.Err()
	case r := <-done:
		return r.text, r.err
	}
}
