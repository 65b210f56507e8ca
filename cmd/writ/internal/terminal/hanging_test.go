package terminal

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

func TestParagraphsHangBehindTheirLabel(t *testing.T) {
	paragraphs := []string{"socket: it is missing: no containers", "fix: https://example.net/a/very/long/address now"}
	const want = "missing  socket: it is\n" +
		"         missing: no\n" +
		"         containers\n" +
		"         fix:\n" +
		"         https://example.net/a/very/long/address\n" +
		"         now\n"
	if got := Hanging("missing", 9, 24, paragraphs...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const unbounded = "missing  socket: it is missing: no containers\n         fix: https://example.net/a/very/long/address now\n"
	if got := Hanging("missing", 9, 0, paragraphs...); got != unbounded {
		t.Errorf("without a width: got\n%s\nwant\n%s", got, unbounded)
	}
}

func TestParagraphsHaveNoUnsafeCharacters(t *testing.T) {
	for _, width := range []int{0, 40} {
		text := Hanging("a\x1b[31m", 4, width, "one\ntwo \u202e\x07")
		if strings.ContainsAny(text, "\x1b\x07\u202e") || strings.Count(text, "\n") != 1 {
			t.Errorf("width %d: %q", width, text)
		}
		for line := range strings.Lines(text) {
			if width > 0 && lipgloss.Width(line) > width {
				t.Errorf("width %d: %q is too wide", width, line)
			}
		}
	}
}
