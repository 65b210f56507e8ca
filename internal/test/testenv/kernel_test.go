package testenv

import (
	"slices"
	"testing"
)

func TestVersionsAreOrderedByNumber(t *testing.T) {
	for _, want := range [][]string{
		{"/usr/lib/postgresql/9.6/bin/postgres", "/usr/lib/postgresql/15/bin/postgres", "/usr/lib/postgresql/17/bin/postgres"},
		{"vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-29-amd64", "vmlinuz-6.12.9-amd64"},
		{"a", "a1", "a01b", "b"},
	} {
		got := slices.Sorted(slices.Values(want))
		if slices.SortFunc(got, compareVersions); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
