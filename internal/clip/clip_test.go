package clip

import "testing"

func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text              string
		limit             int
		want, prefix, end string
	}{
		{"", 0, "", "", ""}, {"abc", 3, "abc", "abc", "abc"}, {"abcd", 3, "abc…", "abc", "…bcd"}, {"aéb", 2, "a…", "a", "…b"},
		{"aéb", 3, "aé…", "aé", "…éb"}, {"\x80\x80\x80", 2, "…", "", "…"}, {"\x80", 1, "\x80", "", "\x80"}, {"é", 0, "…", "", "…"},
	} {
		if got := Text(tt.text, tt.limit); got != tt.want {
			t.Errorf("Text(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.want)
		}
		if got := End(tt.text, tt.limit); got != tt.end {
			t.Errorf("End(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.end)
		}
		if got := Prefix(tt.text, tt.limit); got != tt.prefix {
			t.Errorf("Prefix(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.prefix)
		}
	}
}
