package terminal

import (
	"bytes"
	"errors"
	"fmt"
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

// maxTyped limits the bytes of a name that Typed reads.
const maxTyped = 128

// Typed asks the user to type a word, and reports whether the answer is exactly that word. The terminal must be
// interactive. The end of the input counts as another word. The error is the error of Until.
func Typed(t *Terminal, question, word string) (bool, error) {
	fmt.Fprintf(t.Err, "%s: ", Clean(question))
	answer, err := t.line(maxTyped)
	if err != nil { // the cursor is still on the line of the question
		fmt.Fprintln(t.Err)
	}
	if err != nil && !errors.Is(err, ErrEnded) {
		return false, err
	}
	return err == nil && string(bytes.TrimSpace(answer)) == word, nil
}
