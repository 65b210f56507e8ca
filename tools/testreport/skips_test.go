package main

import (
	"strings"
	"testing"
)

func TestSkipsAreListedByReason(t *testing.T) {
	r := reportOf(t,
		event{Action: "output", Package: "writ/a", Test: "TestOne/sub", Output: "    one_test.go:7: nft is not on PATH\n"},
		event{Action: "skip", Package: "writ/a", Test: "TestOne/sub"},
		event{Action: "pass", Package: "writ/a", Test: "TestOne"},
		event{Action: "output", Package: "writ/b", Test: "TestScripts/ca", Output: "    cmd.go:380: nft is not on PATH\n"},
		event{Action: "output", Package: "writ/b", Test: "TestScripts/ca", Output: "    testscript.go:609: WORK=$WORK\n"},
		event{Action: "skip", Package: "writ/b", Test: "TestScripts/ca"},
		event{Action: "output", Package: "writ/b", Test: "TestLong", Output: "    b_test.go:8: nightly: TestShort has the rest\n"},
		event{Action: "skip", Package: "writ/b", Test: "TestLong"},
		event{Action: "skip", Package: "writ/b", Test: "TestSilent"},
		event{Action: "skip", Package: "writ/c"}, // a package without tests
	)
	var got strings.Builder
	r.skips.write(&got)
	const want = `
SKIPPED 1: it runs in the nightly tier
    writ/b TestLong

SKIPPED 2: nft is not on PATH
    writ/a TestOne/sub
    writ/b TestScripts/ca

SKIPPED 1: no reason
    writ/b TestSilent
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}
