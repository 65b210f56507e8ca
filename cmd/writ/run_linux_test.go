package main

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// newTerminal returns both ends of a terminal that does not answer queries.
func newTerminal(t *testing.T) (outside, inside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { outside.Close() })
	number, err := unix.IoctlGetInt(int(outside.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(outside.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	inside, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	return outside, inside
}

// An answer may never arrive, typed-ahead input belongs to the shell, and a background process that queries is stopped.
func TestErrorAsksTheTerminalNothing(t *testing.T) {
	outside, inside := newTerminal(t)
	cmd := exec.Command("writ", "run", "show", "zz")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 2 {
		t.Fatalf("it ended with %v", exit)
	}
	shown := make([]byte, 4096)
	n, err := outside.Read(shown)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(shown[:n]); !strings.Contains(got, `"zz" is not the id of a run`) || strings.Contains(got, "\x1b]11;") {
		t.Errorf("the terminal got %q", got)
	}
}

// session is a program at its own terminal.
type session struct {
	t       *testing.T
	outside *os.File
	shown   string
	ended   chan error
}

// atTerminal starts writ at a new terminal.
func atTerminal(t *testing.T, args ...string) *session {
	t.Helper()
	outside, inside := newTerminal(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second) // for a program that never ends
	t.Cleanup(stop)
	cmd := exec.CommandContext(ctx, "writ", args...)
	cmd.Env = append(os.Environ(), "CI=", "TERM=xterm", "HOME="+t.TempDir(), "SSH_AUTH_SOCK=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctrl-C must reach it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inside.Close() // the other copy closes when the program ends
	s := &session{t: t, outside: outside, ended: make(chan error, 1)}
	go func() { s.ended <- cmd.Wait() }()
	return s
}

// answer waits for a prompt and types keys.
func (s *session) answer(question, keys string) {
	s.t.Helper()
	for !strings.Contains(s.shown, question) {
		if !s.read() {
			s.t.Fatalf("no question %q in the output %q", question, s.shown)
		}
	}
	if _, err := s.outside.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// end waits until the program has ended and returns its exit code.
func (s *session) end() (exit int) {
	s.t.Helper()
	for s.read() {
	}
	err := <-s.ended
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return 0
}

// read appends the next output to shown. It returns false at the end of the output.
func (s *session) read() bool {
	text := make([]byte, 4096)
	n, err := s.outside.Read(text)
	s.shown += string(text[:n])
	return err == nil
}

// shows reports whether the terminal echoes input.
func (s *session) shows() bool {
	s.t.Helper()
	mode, err := unix.IoctlGetTermios(int(s.outside.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return mode.Lflag&unix.ECHO != 0
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

// Promise: Terminals and output: Ctrl-C and Ctrl-D end each prompt of a command without signing or setting anything,
// and the terminal echoes input again.
// How: A goroutine reads the terminal; the prompt ends with the context of the command.
// Also: TestTheSecondQuestionForASecretEndsWithCtrlC, TestInterruptedConfirmationSignsNothing,
// TestAReadEndsWithItsCommand.
func TestAQuestionEndsWithCtrlCAndCtrlD(t *testing.T) {
	for _, tt := range []struct {
		command, keys string
		exit          int
		said          string
	}{
		{"secret set pw", ctrlC, writ.ExitInterrupted, "nothing was set"},
		{"secret set pw", ctrlD, writ.ExitUsage, "nothing was set [USAGE]"},
		{"init --data data --key locked", ctrlC, writ.ExitInterrupted, ""},
		{"init --data data --key locked", ctrlD, writ.CodeKeyUnusable.Info().Exit, "locked: the input ended [KEY_UNUSABLE]"},
	} {
		t.Run(tt.command+" "+strconv.Quote(tt.keys), func(t *testing.T) {
			t.Chdir(t.TempDir())
			lockedKey(t, "locked")
			s := atTerminal(t, strings.Fields(tt.command)...)
			s.answer(": ", tt.keys)
			if exit := s.end(); exit != tt.exit || !strings.Contains(s.shown, tt.said) {
				t.Errorf("exit %d, want %d; output %q, want %q", exit, tt.exit, s.shown, tt.said)
			}
			if !s.shows() {
				t.Error("the terminal does not show input")
			}
		})
	}
}

func TestTheSecondQuestionForASecretEndsWithCtrlC(t *testing.T) {
	s := atTerminal(t, "secret", "set", "pw")
	s.answer("Value of pw: ", "one\n")
	s.answer("Once more: ", ctrlC)
	if exit := s.end(); exit != writ.ExitInterrupted || !s.shows() {
		t.Errorf("exit %d, input is shown: %v; output %q", exit, s.shows(), s.shown)
	}
}

func TestASecretIsTypedTwiceAndNotShown(t *testing.T) {
	s := atTerminal(t, "secret", "set", "pw")
	s.answer("Value of pw: ", "one\n")
	s.answer("Once more: ", "two\n")
	if exit := s.end(); exit != writ.ExitUsage || !strings.Contains(s.shown, "the two values differ") || !s.shows() {
		t.Errorf("exit %d, output %q", exit, s.shown)
	}
}

func TestInterruptedConfirmationSignsNothing(t *testing.T) {
	_, inside := newTerminal(t)
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	env := newEnv(terminal.New(inside, inside, inside, nil))
	env.Until = interrupted
	err := cli.ConfirmSigning(env, "cancel these 2 runs", "")
	if terminal.ExitCode(err) != writ.ExitInterrupted {
		t.Errorf("%v", err)
	}
}

// lockedKey creates an SSH key with a passphrase.
func lockedKey(t *testing.T, path string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err := errors.Join(err, os.WriteFile(path, pem.EncodeToMemory(block), 0o600)); err != nil {
		t.Fatal(err)
	}
}
