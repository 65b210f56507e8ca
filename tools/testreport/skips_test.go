package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSkipsAreListedByReason(t *testing.T) {
	var text strings.Builder
	for _, e := range []event{
		{Action: "output", Package: "writ/a", Test: "TestOne/sub", Output: "    one_test.go:7: nft is not on PATH\n"},
		{Action: "skip", Package: "writ/a", Test: "TestOne/sub"},
		{Action: "pass", Package: "writ/a", Test: "TestOne"},
		{Action: "output", Package: "writ/b", Test: "TestScripts/ca", Output: "    cmd.go:380: nft is not on PATH\n"},
		{Action: "output", Package: "writ/b", Test: "TestScripts/ca", Output: "    testscript.go:609: WORK=$WORK\n"},
		{Action: "skip", Package: "writ/b", Test: "TestScripts/ca"},
		{Action: "output", Package: "writ/b", Test: "TestLong", Output: "    b_test.go:8: nightly: TestShort has the rest\n"},
		{Action: "skip", Package: "writ/b", Test: "TestLong"},
		{Action: "skip", Package: "writ/b", Test: "TestSilent"},
		{Action: "skip", Package: "writ/c"}, // a package without tests
	} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	r, err := read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	r.skips.write(&got)
	const want = `
SKIPPED 2: nft is not on PATH
    writ/a TestOne/sub
    writ/b TestScripts/ca

SKIPPED 1: no reason
    writ/b TestSilent

SKIPPED 1: the nightly tier has it
    writ/b TestLong
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}
