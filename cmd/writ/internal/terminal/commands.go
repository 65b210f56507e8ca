package terminal

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// CI systems read commands from what a job prints: "::add-mask::x" at the beginning of a line and "##[add-mask]x" anywhere in it (GitHub Actions),
// "##vso[task.setvariable variable=PATH]x" (Azure Pipelines), "##teamcity[…]". A script, a guest or a coordinator chooses texts that are shown, so
// there all output goes through this.

// readsCommands reports whether such a system reads what is printed.
func readsCommands(environ []string) bool {
	return variable(environ, "GITHUB_ACTIONS") != "" || variable(environ, "TF_BUILD") != "" || variable(environ, "TEAMCITY_VERSION") != ""
}

// harmed writes what it is given, with a space in the middle of what begins a command.
type harmed struct {
	to io.Writer

	mu     sync.Mutex
	begun  bool // the line has more than space
	colons int  // at its beginning
	hashes int  // before, with letters behind them at most
}

// Write implements io.Writer. It takes all of p, or fails.
func (h *harmed) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if h.breaks(r) {
			out = append(out, ' ')
		}
		out = append(out, rest[:size]...)
		rest = rest[size:]
	}
	if _, err := h.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// breaks reports whether a character would complete the beginning of a command, and remembers it.
func (h *harmed) breaks(r rune) (is bool) {
	switch {
	case r == '\n' || r == '\r':
		h.begun, h.colons = false, 0
	case h.begun || unicode.IsSpace(r) && h.colons == 0:
	case r == ':':
		h.colons++
		is = h.colons == 2
		h.begun = is
	default:
		h.begun = true
	}
	switch {
	case r == '#':
		h.hashes++
	case h.hashes >= 2 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'):
	default:
		is = is || r == '[' && h.hashes >= 2
		h.hashes = 0
	}
	return is
}

// Command writes a command for the CI system, in a line of its own. The caller escapes what it is made of.
func (t *Terminal) Command(text string) {
	to := t.Err
	if h, ok := to.(*harmed); ok {
		to = h.to
	}
	fmt.Fprintln(to, text)
}
