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

// ErrEnded is the error of a question if the input ends before anything is typed, as by Ctrl-D.
var ErrEnded = errors.New("the input ended")

// The most bytes that are read as the answer to a question. What comes after them is not for this question.
const (
	maxAnswer = 16
	maxHidden = 64 << 10
)

// Passphrase asks for a passphrase. It is an error if nobody is there.
func (t *Terminal) Passphrase(what string) ([]byte, error) {
	if !t.Interactive() {
		return nil, errors.New("there is no terminal to ask at; load the key into an ssh-agent instead")
	}
	return t.Hidden("Passphrase for " + what)
}

// Hidden asks for something that must not be seen. Somebody must be there. The error is ErrEnded, or that of Until. The terminal shows again
// what is typed when Hidden returns, also after an interrupt.
func (t *Terminal) Hidden(what string) ([]byte, error) {
	fmt.Fprintf(t.Err, "%s: ", Clean(what))
	defer fmt.Fprintln(t.Err)
	before, err := term.GetState(t.In.Fd())
	if err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	silent := *before
	silent.Lflag = silent.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	silent.Iflag |= unix.ICRNL
	if err := term.SetState(t.In.Fd(), &silent); err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	defer func() { _ = term.SetState(t.In.Fd(), before) }() // what fails is that the terminal is gone
	return t.line(maxHidden)
}

// Confirm asks a question that is answered with yes or no, and reports whether the answer is yes. Somebody must be there. The error is that of
// Until; an input that ends says no.
func (t *Terminal) Confirm(question string) (bool, error) {
	fmt.Fprintf(t.Err, "%s [y/N] ", Clean(question))
	answer, err := t.line(maxAnswer)
	if err != nil { // the cursor is still behind the question
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

// Input returns the standard input up to its end, or most bytes of it.
func (t *Terminal) Input(most int64) ([]byte, error) {
	return t.read(func() ([]byte, error) { return io.ReadAll(io.LimitReader(t.In, most)) })
}

// ReadFile returns the start of a file: at most one byte more than most. The read of a pipe without a writer ends with Until.
func (t *Terminal) ReadFile(path string, most int64) ([]byte, error) {
	return t.read(func() ([]byte, error) {
		f, err := os.Open(path) // waits for the other end of a pipe
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, most+1))
	})
}

// line returns what is typed up to the end of its line, without that, or most bytes of it.
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

// read returns what a function reads, or the error of Until when that ends. A read cannot be ended: it waits on until the process ends, and takes
// what is typed meanwhile.
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
