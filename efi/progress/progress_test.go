package progress_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"writ/efi/progress"
	"writ/internal/hidden"
)

func TestAReportIsBoundedAndCanBeShown(t *testing.T) {
	for _, text := range []string{
		"", "eth0 10.77.0.50/24, by DHCP", "\x1b]0;owned\a\x1b[2Jcleared", "two\nlines\r\x00", "\xff\xfe no text", "turned \u202eevil", strings.Repeat("ä", 10_000),
		strings.Repeat("\u202e", 10_000), strings.Repeat("\x1b", 10_000), strings.Repeat("a", progress.MaxText), strings.Repeat("a", progress.MaxText+1),
	} {
		clean := progress.Report{Stage: "data", Text: text, Next: text}.Clean()
		got := clean.Text
		if clean.Next != got {
			t.Errorf("cleaned next step = %q, cleaned text = %q", clean.Next, got)
		}
		if len(got) > progress.MaxText || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || strings.ContainsFunc(got, hidden.Is) {
			t.Errorf("%.40q becomes %q, of %d bytes", text, got, len(got))
		}
		if len(text) <= progress.MaxText && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 && got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestAReportHasTheFormOfOne(t *testing.T) {
	for stage, want := range map[string]bool{"clock": true, "half-way": true, "": false, "Clock": false, "a b": false, "\x1b": false, strings.Repeat("a", 17): false} {
		if got := (progress.Report{Stage: stage}).Valid(); got != want {
			t.Errorf("the stage %q: %v", stage, got)
		}
	}
	for name, want := range map[string]bool{"n1": true, "": true, "N 1": false, "../n1": false} {
		if got := (progress.Report{Stage: "clock", Node: name}).Valid(); got != want {
			t.Errorf("the node %q: %v", name, got)
		}
	}
}

func TestTheDigestOfSettingsIsThatOfTheirWords(t *testing.T) {
	is := progress.SettingsOf("quiet writ.name=n1 writ.data=x")
	for text, same := range map[string]bool{
		"writ.name=n1  writ.data=x panic=60\n": true, "writ.name=n1 writ.join=writ2.canary writ.data=x": true,
		"writ.name=n2 writ.data=x": false, "writ.data=x writ.name=n1": false, "writ.name=n1": false, "writ.name=n1writ.data=x": false, "": false,
	} {
		if got := progress.SettingsOf(text); (got == is) != same || !(progress.Report{Stage: "start", Settings: got}).Valid() {
			t.Errorf("digest of %q = %s, of the first settings = %s", text, got, is)
		}
	}
	for _, text := range []string{"x", strings.Repeat("g", 16), strings.Repeat("a", 17), "\x1b"} {
		if (progress.Report{Stage: "start", Settings: text}).Valid() {
			t.Errorf("%q is taken for a digest", text)
		}
	}
}

func TestAnAddressOfACardHasOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00:77:00:50": "52:54:00:77:00:50", "52-54-00-77-00-5A": "52:54:00:77:00:5a", "5254.0077.0050": "52:54:00:77:00:50",
		"": "", "52:54:00:77:00": "", "00:00:00:00:00:00": "", "ff:ff:ff:ff:ff:ff": "", "01:00:5e:00:00:01": "", "02:00:5e:10:00:00:00:01": "",
		"../../etc/passwd": "", "52:54:00:77:00:50\n": "", "52:54:00:77:00:zz": "",
	} {
		if got := progress.MAC(text); got != want {
			t.Errorf("MAC(%q) = %q, want %q", text, got, want)
		}
		if want != "" && progress.MAC(progress.Name(want)) != want {
			t.Errorf("%q is not read back", progress.Name(want))
		}
	}
}
