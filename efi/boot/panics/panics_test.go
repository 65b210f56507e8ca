package panics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// panicked adds the records of a panic to a pstore. The first part has the last lines.
func panicked(pstore fstest.MapFS, at time.Time, why string, first ...string) {
	texts := []string{
		"<6>[   12.345678] a line before\n<0>[   12.500000] Kernel panic - not syncing: " + why + "\n<4>[   12.500001] Call Trace:\n",
		strings.Join(append(first, "<6>[    1.000000] the kernel starts\n"), ""),
	}
	for i, text := range texts {
		part := i + 1
		pstore[fmt.Sprintf("dmesg-efi_pstore-%d%02d001", at.Unix(), part)] = &fstest.MapFile{Data: fmt.Appendf(nil, "Panic#1 Part%d\n%s", part, text), ModTime: at}
	}
}

// found returns the crashes in a pstore.
func found(t *testing.T, pstore fstest.MapFS) []Crash {
	t.Helper()
	all, _, err := Read(pstore)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var firstPanic = time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)

// Promise: Machines from an image: After a kernel panic, the console and the node's log show the kernel's last words,
// without the token.
// How: pstore in firmware variables; entries are bounded, cleaned, and deleted once the log has its place; the boot
// server receives the reason.
// Also: TestLastWordsAreBounded, TestTheLastWordsOfAKernelAreInTheLogWithoutTheToken,
// TestTheLastWordsOfAKernelAreShownWithoutTheToken, TestStartsFromADiskAreCountedAndSayHowTheLastOneEnded.
func TestTheLastWordsOfAKernelArePutTogether(t *testing.T) {
	pstore := fstest.MapFS{
		"console-ramoops-0":  {Data: []byte("none of them")},
		"dmesg-efi_pstore-1": {Data: []byte("Oops#1 Part1\n<4>[    3.0] an oops\n"), ModTime: firstPanic.Add(-time.Minute)},
		"dmesg-erst-2.enc.z": {Data: []byte("x\x9c not unpacked")},
		"dmesg-efi_pstore-3": {Data: []byte("Panic#1 Part")},
	}
	panicked(pstore, firstPanic.Add(time.Minute), "second", "<4>[    3.000000][    T1] RIP: 0010:btrfs_foo+0x12/0x30\n", "<4>[    3.100000] RIP: 0033:0x7f\n")
	panicked(pstore, firstPanic, "first \x1b]0;owned\a"+strings.Repeat("x", 1000))
	all := found(t, pstore)
	if len(all) != 2 {
		t.Fatalf("got %d panics: %+v", len(all), all)
	}
	if c := all[0]; !strings.HasPrefix(c.reason, "Kernel panic - not syncing: first  ]0;owned xxx") || len(c.reason) > maxReason || strings.ContainsAny(c.reason, "\x1b\a") {
		t.Errorf("the reason is %q", c.reason)
	}
	c := all[1]
	if c.reason != "Kernel panic - not syncing: second (in btrfs_foo)" || c.After != 12500*time.Millisecond || !c.At.Equal(firstPanic.Add(time.Minute)) {
		t.Errorf("it is %+v", c)
	}
	var texts []string
	for _, line := range c.Lines {
		texts = append(texts, fmt.Sprint(line.Priority, " ", line.Text))
	}
	want := []string{"4 RIP: 0010:btrfs_foo+0x12/0x30", "4 RIP: 0033:0x7f", "6 the kernel starts", "6 a line before", "0 Kernel panic - not syncing: second", "4 Call Trace:"}
	if !slices.Equal(texts, want) {
		t.Errorf("the lines are %q", texts)
	}
	if len(c.Files) != 2 || !strings.Contains(c.Files[0], "02001") {
		t.Errorf("its files are %q", c.Files)
	}
	if words := c.LastWords(); len(words) != 5 || words[4] != "Kernel panic - not syncing: second" {
		t.Errorf("last words = %q", words)
	}
	if c.id == all[0].id {
		t.Error("two panics are one")
	}
}

// Previous users of the machine may have written the records in its firmware.
func TestLastWordsAreBounded(t *testing.T) {
	pstore := fstest.MapFS{}
	for i := range 3 * maxRecords {
		text := fmt.Sprintf("Panic#1 Part%d\n", i+1) + strings.Repeat("<0>[ 1.0] \x1b[2J\x00line\n", 10_000)
		pstore[fmt.Sprintf("dmesg-efi_pstore-%03d", i)] = &fstest.MapFile{Data: []byte(text)}
	}
	records, files, err := readRecords(pstore)
	if err != nil || len(records) != maxRecords || len(files) != maxRecords {
		t.Fatalf("%d records of %d files are read, %v", len(records), len(files), err)
	}
	for _, c := range crashes(records) {
		if len(c.Lines) > wordsKept || len(c.LastWords()) != 0 || !strings.HasSuffix(c.reason, "unknown reason") {
			t.Errorf("%d lines are kept, with the reason %q", len(c.Lines), c.reason)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"times":-1}`, `{"times":1e9}`, `{"times":2,"id":"` + strings.Repeat("x", 1000) + `"}`} {
		if p := parsePanics([]byte(text)); p != (Count{}) {
			t.Errorf("%.40s is %+v", text, p)
		}
	}
	p := parsePanics([]byte(`{"times":99,"reason":"\u001b[2J` + strings.Repeat("x", 1000) + `"}`))
	if p.Times != stillFrom || len(p.Reason) > 2*maxReason || strings.Contains(p.Reason, "\x1b") {
		t.Errorf("it is %+v", p)
	}
}

// Each start counts the panic of the previous one. The records stay until they are stored elsewhere.
//
// Promise: Machines from an image: A machine that panicked in the same way at the end of two starts starts no service
// and no runner until a power cycle.
// How: A firmware variable has the count, beside the id of the last counted words; a restart by the watchdog has the
// same effect.
// Also: TestLatePanicIsNoFailedStart, TestAMachineThatItsWatchdogRestartsTwiceIsHeld.
func TestKernelThatPanicsAfterTwoStartsIsHeld(t *testing.T) {
	at, pstore, count := firstPanic, fstest.MapFS{}, Count{}
	start := func(what string, held, still bool) {
		t.Helper()
		count = count.After(found(t, pstore))
		if count.Held() != held || count.Still() != still {
			t.Errorf("%s: it is %+v", what, count)
		}
	}
	ends := func(why string) {
		at = at.Add(time.Second)
		panicked(pstore, at, why)
	}
	start("at first", false, false)
	ends("Fatal exception in CPU 1, address 0xffff88810000cafe")
	start("after a panic", false, false)
	start("after a power cut before these words were deleted", false, false)
	ends("Fatal exception in CPU 1, address 0xffff88810000cafe")
	start("after a panic that is the first since", false, false)
	ends("Fatal exception in CPU 3, address 0xffff888200001234")
	start("after the same panic", true, false)
	if err := count.Trouble(); !strings.Contains(err.Error(), "panicked in the same way at the end of two starts: Kernel panic - not syncing: Fatal exception") {
		t.Error(err)
	}
	ends("Fatal exception in CPU 3, address 0xffff888200001234")
	start("after it panicked while it was held", true, true)
	ends("NMI: Not continuing")
	start("and once more, for another reason", true, true)
	start("after it was turned off and on", false, false)
	clear(pstore)
	ends("Fatal exception in CPU 3, address 0xffff888200001234")
	start("after the first panic since", false, false)
	clear(pstore)
	ends("VFS: unable to mount root")
	start("after another panic", false, false)
	ends("VFS: unable to mount root")
	start("after the same panic, beside the one before", true, false)
	clear(pstore)
	start("after it was turned off and on again", false, false)
	if count != (Count{}) {
		t.Errorf("count after a power cycle = %+v", count)
	}
}

func TestLatePanicIsNoFailedStart(t *testing.T) {
	late := Crash{id: "1", reason: "x", After: 2 * LateAfter}
	early := func(id string) Crash { return Crash{id: id, reason: "x", After: time.Minute} }
	p := Count{}.After([]Crash{late})
	if p.Times != 0 || p.Reason != "x" {
		t.Errorf("it counts as %+v", p)
	}
	p = p.After([]Crash{early("2")})
	p = p.After([]Crash{{id: "3", reason: "x", After: 2 * LateAfter}})
	if p.Held() {
		t.Errorf("it is held: %+v", p)
	}
	if p = p.After([]Crash{early("4"), early("5")}); !p.Held() {
		t.Errorf("it is not held: %+v", p)
	}
}

// A reset by the hardware leaves no records.
func TestAMachineThatItsWatchdogRestartsTwiceIsHeld(t *testing.T) {
	p := Count{ID: "1"}.AfterReset()
	if want := (Count{"1", resetReason, 1}); p != want || p.Held() {
		t.Errorf("the first time it is %+v", p)
	}
	if again := p.After(nil); again.Times != 0 {
		t.Errorf("after another end it is %+v", again)
	}
	if p = p.AfterReset(); !p.Held() || p.Still() || !strings.Contains(p.Trouble().Error(), "restarted it at the end of two starts") {
		t.Errorf("the second time it is %+v: %v", p, p.Trouble())
	}
	if p = p.AfterReset(); p.Held() {
		t.Errorf("a held count after a reset = %+v", p)
	}
	early := Crash{id: "2", reason: "x", After: time.Minute}
	if p = (Count{}).After([]Crash{early}).AfterReset(); p.Held() {
		t.Errorf("after a panic it is held: %+v", p)
	}
}
