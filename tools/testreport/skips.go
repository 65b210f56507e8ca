package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// skips holds skipped tests as "PACKAGE TEST", by reason.
type skips map[string][]string

var place = regexp.MustCompile(`^\s*(\w+\.go):\d+: `)

// add records a skipped test. The reason is the last line of the output that begins with a file name and a line number,
// without these. Lines of testscript.go do not count: testscript logs one after the reason. Tests of the nightly tier
// all get the same reason.
func (s skips) add(test string, output []string) {
	reason := "no reason"
	for _, line := range output {
		if at := place.FindStringSubmatch(line); at != nil && at[1] != "testscript.go" {
			reason = strings.TrimSpace(line[len(at[0]):])
		}
	}
	if strings.HasPrefix(reason, "nightly: ") {
		reason = "it runs in the nightly tier"
	}
	s[reason] = append(s[reason], test)
}

func (s skips) write(w io.Writer) {
	for _, reason := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(w, "\nSKIPPED %d: %s\n", len(s[reason]), reason)
		for _, name := range s[reason] {
			fmt.Fprintln(w, "   ", name)
		}
	}
}
