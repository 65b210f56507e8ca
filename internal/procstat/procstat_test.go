package procstat

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOwnProcessIsMeasured(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	piece := make([]byte, 64<<20)
	for i := range piece {
		piece[i] = 1
	}
	deadline := time.Now().Add(time.Minute)
	for {
		cpu, memory, err := Taken(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if cpu > 0 && memory >= int64(len(piece)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, the process has taken %s and %d bytes", cpu, memory)
		}
		for i := range piece {
			piece[i]++
		}
	}
	if piece[0] == 0 { // the memory stays in use until here
		t.Log("an overflow")
	}
}

func TestWrittenBytesAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "7"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int64{
		"rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 9\n": 8192,
		"rchar: 1\n":          -1,
		"write_bytes: many\n": -1,
	} {
		if err := os.WriteFile(filepath.Join(dir, "7", "io"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := written(dir, 7)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	if _, err := written(dir, 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a process that has ended: %v", err)
	}
}

func TestFieldsAfterOddNameAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "7", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "7"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("stat", "7 (a) (b c) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1\n")
	write("statm", "900 25 3 4 5 6 7\n")
	cpu, memory, err := taken(dir, 7)
	if err != nil || cpu != 2*time.Second || memory != 25*int64(os.Getpagesize()) {
		t.Errorf("it has taken %s and %d bytes, %v", cpu, memory, err)
	}
	for _, broken := range []string{"", "7 (a) R 1", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 50"} {
		write("stat", broken)
		if _, _, err := taken(dir, 7); err == nil {
			t.Errorf("%q is read", broken)
		}
	}
	if _, _, err := taken(dir, 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a process that has ended: %v", err)
	}
}
