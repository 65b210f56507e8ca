package target

import (
	"slices"
	"strings"
	"testing"

	"writ"
)

func TestTargetsCoverOnlyTheirNames(t *testing.T) {
	for _, tt := range []struct {
		target string
		covers []string
		not    []string
	}{
		{"volume/web-0", []string{"volume web-0"}, []string{"volume web-01", "volume web", "container web-0", "machine web-0"}},
		{"volume/web-*", []string{"volume web-0", "volume web-", "volume web-data-1"}, []string{"volume web", "volume wea-0", "image web-0"}},
		{"herodb/web*", []string{"herodb web", "herodb webs"}, []string{"herodb we", "volume web"}},
		{"*", []string{"volume x", "herodb store"}, nil},
	} {
		if !Valid(tt.target) {
			t.Errorf("%q is not a valid target", tt.target)
		}
		targets := []string{"image/other", tt.target}
		for _, all := range [][]string{tt.covers, tt.not} {
			for _, one := range all {
				kind, name, _ := strings.Cut(one, " ")
				if got, want := Covered(targets, writ.ResourceKind(kind), name), slices.Contains(tt.covers, one); got != want {
					t.Errorf("%q covers the %s: %v", tt.target, one, got)
				}
			}
		}
	}
	for _, bad := range []string{"", "volume", "volume/", "volume/*", "volume/w*", "volume/we*", "*/web-0", "**", "volume/web-0 ", "volume/-web", "volume/web*x", "volume/" + strings.Repeat("a", 64)} {
		if Valid(bad) {
			t.Errorf("%q is a target", bad)
		}
	}
}
