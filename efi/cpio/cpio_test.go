package cpio

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"writ/internal/test/testenv"

	"os/exec"
)

// sample returns an archive with all types of entries. The order of adding them depends on backwards.
func sample(t *testing.T, backwards bool) []byte {
	t.Helper()
	a := &Archive{}
	steps := []func() error{
		func() error { return a.File("usr/bin/writ", 0o755, []byte("program")) },
		func() error { return a.Symlink("init", "usr/bin/writ") },
		func() error { return a.File("etc/hosts", 0o644, nil) },
		func() error { return a.Dir("tmp", 0o777) },
	}
	for i := range steps {
		if backwards {
			i = len(steps) - 1 - i
		}
		if err := steps[i](); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	n, err := a.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("WriteTo = %d, %v, want %d", n, err, out.Len())
	}
	return out.Bytes()
}

// read is a second, independent parser, which reads only the fields that the kernel uses.
func read(t *testing.T, archive []byte) (lines []string) {
	t.Helper()
	for at := 0; ; {
		if string(archive[at:at+6]) != "070701" {
			t.Fatalf("no header at %d: %q", at, archive[at:at+6])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(archive[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		if field(5) != 0 || field(2) != 0 || field(3) != 0 {
			t.Errorf("an entry has the time %d and the owner %d:%d", field(5), field(2), field(3))
		}
		size, name := field(6), string(archive[at+110:at+110+field(11)-1])
		begin := (at + 110 + field(11) + 3) &^ 3
		if name == "TRAILER!!!" {
			if len(archive) != begin {
				t.Errorf("%d bytes follow the end", len(archive)-begin)
			}
			return lines
		}
		lines = append(lines, fmt.Sprintf("%06o %s %s", field(1), name, archive[begin:begin+size]))
		at = (begin + size + 3) &^ 3
	}
}

func TestArchiveHasAddedFilesAndTheirDirectories(t *testing.T) {
	got := strings.Join(read(t, sample(t, false)), "\n")
	want := strings.Join([]string{
		"040755 etc ", "100644 etc/hosts ", "120777 init usr/bin/writ", "040777 tmp ", "040755 usr ", "040755 usr/bin ", "100755 usr/bin/writ program",
	}, "\n")
	if got != want {
		t.Errorf("the archive has\n%s\nwant\n%s", got, want)
	}
}

func TestTheSameFilesMakeTheSameArchive(t *testing.T) {
	if a, b := sample(t, false), sample(t, true); !bytes.Equal(a, b) {
		t.Errorf("the order of adding shows:\n%s\n%s", hex.Dump(a), hex.Dump(b))
	}
}

// busybox has its own parser.
func TestAnotherProgramReadsTheArchive(t *testing.T) {
	cmd := exec.Command(testenv.Need(t, "busybox"), "cpio", "-t")
	cmd.Stdin = bytes.NewReader(sample(t, false))
	out, err := cmd.Output()
	if want := "etc\netc/hosts\ninit\ntmp\nusr\nusr/bin\nusr/bin/writ\n"; err != nil || string(out) != want {
		t.Errorf("cpio -t = %q, %v, want %q", out, err, want)
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a\x00b", trailer} {
		if err := new(Archive).File(name, 0o644, nil); err == nil {
			t.Errorf("a file %q is added", name)
		}
	}
	a := &Archive{}
	if err := a.File("a", 0o644, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.File("a/b", 0o644, nil); err == nil {
		t.Error("a file below a file is added")
	}
	if err := a.File("a", 0o600, nil); err == nil {
		t.Error("a file is added twice, with two modes")
	}
	if err := a.Symlink("l", ""); err == nil {
		t.Error("a link without a target is added")
	}
}
