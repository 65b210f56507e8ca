package scripts_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/format"
	"writ/scripts/interpreter"
)

// numbered writes n lines that differ only in a number.
func numbered(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}

// costly are sources of up to 64 KiB on which a checker can spend minutes. Any submitter can send them to a supervisor,
// which checks in its own process.
var costly = map[string]string{
	"findings on one line":        strings.Repeat("aaaa;", 13_000),
	"bytes that are no text":      strings.Repeat("\x86", 65_000),
	"misspelt names":              numbered(900, "v%d := 1") + strings.Repeat("vaaaa\n", 9_000),
	"misspelt parameters":         "params := {" + numbered(990, `param%d: {type: "int"},`) + "z: {type: \"int\"}}\np := import(\"run\").params\n" + strings.Repeat("p.parm\n", 5_000),
	"misspelt keys":               "m := {" + numbered(990, "key%d: 1,") + "z: 1}\n" + strings.Repeat("m.kay;", 8_000),
	"misspelt fields":             "m := import(\"machine\")\n" + strings.Repeat("m.create(\"a\", {a: 1, b: 2, cpu: 1})\n", 1_700),
	"a field that is there often": "m := import(\"machine\")\nm.create(\"a\", {" + numbered(990, "cpuz%d: 1,") + "a: 1})",
	"functions that keep a big literal": "fs := []\nfor i := 0; i < 3; i++ { big := [" + strings.Repeat("["+strings.Repeat("1,", 900)+"1],", 14) +
		"1]\nfs = append(fs, func() {" + strings.Repeat("big;", 8_000) + "}) }",
	"loops in loops":         strings.Repeat("for {", 190) + strings.Repeat("a:=1;", 10_000) + strings.Repeat("}", 190),
	"functions in functions": "x := 1;" + strings.Repeat("f := func() {", 180) + strings.Repeat("x;", 25_000) + strings.Repeat("}", 180),
	"blocks in blocks":       strings.Repeat("if a {\n", 190) + strings.Repeat("a\n", 30_000) + strings.Repeat("}\n", 190),
	"imports":                numbered(3_500, `import("m%d")`),
	"sums":                   "a := 1\n" + strings.Repeat("b := a"+strings.Repeat("+a", 900)+"\n", 30),
	"patterns":               "params := {" + numbered(600, `p%d: {type: "string", pattern: "(\\pL{1,100}){1,10}", default: "a"},`) + "z: {type: \"int\"}}",
}

// TestCheckTimeIsLimited measures the CPU time of the thread that checks, compiles and formats.
//
// Promise: Evaluation and resumes: No source occupies the process that checks it for long.
// How: Limits apply before the parser; the check computes lines and suggestions only for shown diagnostics.
func TestCheckTimeIsLimited(t *testing.T) {
	// The slowest takes 0.5 s, and three times that with the race detector; before the fix up to 8 s.
	const most = 3 * time.Second
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, text := range costly {
		if len(text) > scripts.MaxSource {
			t.Errorf("%s: %d bytes are refused at once", name, len(text))
		}
		for what, do := range map[string]func(){
			"check":   func() { _ = check.Check(bundleOf(text)).String() },
			"compile": func() { _, _ = interpreter.Compile(bundleOf(text)) },
			"format":  func() { _, _ = format.Format(scripts.Source{Name: "costly.tengo", Text: []byte(text)}) },
		} {
			before := threadCPU(t)
			do()
			if took := threadCPU(t) - before; took > most {
				t.Errorf("%s: %s took %v of CPU time", name, what, took)
			}
		}
	}
}

func threadCPU(t *testing.T) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}
