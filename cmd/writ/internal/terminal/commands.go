package terminal

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// CI systems execute commands that appear in the output of a job: "::add-mask::x" at the start of a line and
// "##[add-mask]x" anywhere in it (GitHub Actions), "##vso[task.setvariable variable=PATH]x" (Azure Pipelines),
// "##teamcity[…]". Scripts, guests and coordinators control parts of the output, so in CI jobs all output passes
// through the filter below.

// readsCommands reports whether the environment is that of such a CI system.
func readsCommands(environ []string) bool {
	return variable(environ, "GITHUB_ACTIONS") != "" || variable(environ, "TF_BUILD") != "" ||
		variable(environ, "TEAMCITY_VERSION") != ""
}

// harmed is a writer that inserts a space into the start of every CI command.
type harmed struct {
	to io.Writer

	mu     sync.Mutex
	begun  bool // the line has a non-space character
	colons int  // colons at the start of the line
	hashes int  // hashes just before, optionally followed by letters
}

// Write implements io.Writer. It writes all of p or fails.
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

// breaks reports whether r would complete the start of a command, and updates the state.
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

// Command writes a command for the CI system on its own line. The caller must escape its parts.
func (n *Notices) Command(text string) {
	to := n.Err
	if h, ok := to.(*harmed); ok {
		to = h.to
	}
	fmt.Fprintln(to, text)
}
