package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

// directory creates the data directory of a supervisor with its store outside.
func directory(t *testing.T) (dir string, files map[string]string) {
	t.Helper()
	dir = t.TempDir()
	files = map[string]string{"rosters/c/1.roster": "first", "rosters/c/2.roster": "second", "supervisor.key": "secret", "supervisor.pub": "public"}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, files
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func saved(t *testing.T) (file string, files map[string]string) {
	t.Helper()
	dir, files := directory(t)
	file = filepath.Join(t.TempDir(), "dc1.tar")
	if _, err := Save(context.Background(), dir, file, "v1"); err != nil {
		t.Fatal(err)
	}
	return file, files
}

func TestABackupIsRestoredAsItWas(t *testing.T) {
	file, files := saved(t)
	dir := filepath.Join(t.TempDir(), "dc1")
	m, err := Restore(context.Background(), file, dir)
	if err != nil || m.Role != Supervisor {
		t.Fatalf("%+v, %v", m, err)
	}
	got := contents(t, dir)
	if got[RestoredMark] == "" {
		t.Error("a supervisor whose journal is elsewhere does not learn that it was restored")
	}
	delete(got, RestoredMark)
	if diff := cmp.Diff(files, got); diff != "" {
		t.Error(diff)
	}
}

// The directory of `writ dev` contains nodes, which must not be backed up.
//
// Promise: Recovery: A backup never contains the records of a node's work.
// How: The backup refuses a directory with the key of a node at any depth.
func TestADirectoryWithANodeInsideIsNotBackedUp(t *testing.T) {
	dir, _ := directory(t)
	for _, name := range []string{"n1/node.key", "dc2/supervisor.key", "deep/down/ledger.db"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "dev.tar")
		_, err := Save(context.Background(), dir+"/", file, "v1")
		if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("with %s: %v", name, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("a backup exists with %s", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestoredJournalIsMarked(t *testing.T) {
	dir, _ := directory(t)
	begin := func(dir string) time.Time {
		t.Helper()
		j, err := journal.Open(t.Context(), filepath.Join(dir, "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		return j.ReconcilesUntil()
	}
	if got := begin(dir); !got.IsZero() {
		t.Errorf("a new journal is reconciled until %s", got)
	}
	file := filepath.Join(t.TempDir(), "dc1.tar")
	if _, err := Save(t.Context(), dir, file, "v1"); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "dc1")
	if _, err := Restore(t.Context(), file, restored); err != nil {
		t.Fatal(err)
	}
	if contents(t, restored)[RestoredMark] == "" || contents(t, dir)[RestoredMark] != "" {
		t.Error("the mark is missing in the restored directory, or present in the original")
	}
	if got := begin(dir); !got.IsZero() {
		t.Errorf("the journal that was copied is reconciled until %s", got)
	}
}

// A tar file truncated between two of its files looks complete to a reader.
func TestTruncatedBackupIsRefusedWithoutTrace(t *testing.T) {
	file, _ := saved(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.tar")
	for size := 0; size < sumsAt(t, whole); size += 256 {
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, cut)
	}
}

// sumsAt returns the offset of the last file of a backup.
func sumsAt(t *testing.T, backup []byte) int {
	t.Helper()
	at := bytes.Index(backup, []byte(sumsName))
	if at < 0 {
		t.Fatal("the backup has no digests")
	}
	return at
}

func refused(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	_, err := Restore(context.Background(), file, dir)
	var e *writ.Error
	if !errors.As(err, &e) || e.Code != writ.CodeUsage || e.Hint == "" {
		t.Errorf("want %s with a hint, got %v", writ.CodeUsage, err)
	}
	if left := contents(t, dir); len(left) > 0 {
		t.Errorf("is left: %v", left)
	}
}

func TestChangedBackupIsRefusedWithoutTrace(t *testing.T) {
	file, _ := saved(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(whole, []byte("second"), []byte("sEcond"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file)
}

func TestABackupThatLeadsOutOfTheDirectoryIsRefused(t *testing.T) {
	file, _ := saved(t)
	old, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	r := tar.NewReader(old)
	h, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(t.TempDir(), "forged.tar")
	out, err := os.Create(forged)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := tar.NewWriter(out)
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&tar.Header{Name: "../outside", Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, forged)
}

// A sparse file of an exbibyte takes two KiB of a tar file. Without a bound it fills the disk.
//
// Promise: Recovery: A hostile backup is refused before it takes more of the disk than it has bytes itself.
// How: The restore adds up the sizes of the files and compares them with the backup.
func TestSparseBackupIsRefused(t *testing.T) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	manifest := `{"format":1,"role":"coordinator"}`
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(manifest))}))
	_, err := w.Write([]byte(manifest))
	must(err)
	must(w.Flush())
	// archive/tar reads these records but does not write them.
	const holes = 200 << 20
	record := func(key, value string) string {
		n := len(key) + len(value) + 3
		for n != len(fmt.Sprintf("%d %s=%s\n", n, key, value)) {
			n++
		}
		return fmt.Sprintf("%d %s=%s\n", n, key, value)
	}
	records := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") +
		record("GNU.sparse.name", "ledger.db") + record("GNU.sparse.realsize", strconv.Itoa(holes))
	data := make([]byte, 512) // the map: one piece without bytes at the end
	copy(data, fmt.Sprintf("1\n%d\n0\n", holes))
	text.Write(header(t, tar.TypeXHeader, "PaxHeaders/ledger.db", len(records)))
	text.WriteString(records + strings.Repeat("\x00", 512-len(records)))
	text.Write(header(t, tar.TypeReg, "ledger.db", len(data)))
	text.Write(data)
	must(w.Close())

	file, dir := filepath.Join(t.TempDir(), "b.tar"), filepath.Join(t.TempDir(), "coord")
	must(os.WriteFile(file, text.Bytes(), 0o600))
	_, err = Restore(context.Background(), file, dir)
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(fmt.Sprint(err), "larger than the backup") {
		t.Errorf("Restore = %v", err)
	}
	if left := contents(t, dir); len(left) > 0 {
		t.Errorf("it left %d files", len(left))
	}
}

// Each component of a name is a directory that takes a block of the disk.
func TestDeepNamesFillNoDisk(t *testing.T) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	add := func(name, content string) {
		t.Helper()
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))})
		if _, failed := io.WriteString(w, content); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	add(manifestName, `{"format":1,"role":"coordinator"}`)
	for i := range 3 {
		add(strconv.Itoa(i)+strings.Repeat("/d", 400)+"/file", "")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, dir := filepath.Join(t.TempDir(), "b.tar"), filepath.Join(t.TempDir(), "coord")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(context.Background(), file, dir); !strings.Contains(fmt.Sprint(err), "directories") {
		t.Errorf("Restore = %v", err)
	}
}

func TestBackupFromAPipeIsExplained(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	dir := filepath.Join(t.TempDir(), "coord")
	_, err = Restore(context.Background(), fmt.Sprintf("/dev/fd/%d", r.Fd()), dir)
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(fmt.Sprint(err), "regular file") {
		t.Errorf("Restore = %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("it made the directory")
	}
}

// header returns the block of a tar header.
func header(t *testing.T, kind byte, name string, size int) []byte {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(size), Format: tar.FormatUSTAR}); err != nil {
		t.Fatal(err)
	}
	block := text.Bytes()[:512]
	block[156] = kind
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return block
}

func TestBackupKeepsOtherFiles(t *testing.T) {
	dir, _ := directory(t)
	if err := os.WriteFile(filepath.Join(dir, "journal.db"), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	precious := filepath.Join(place, "dc1.tar.store")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(context.Background(), dir, filepath.Join(place, "dc1.tar"), "v1"); err == nil {
		t.Error("an invalid store was copied")
	}
	if diff := cmp.Diff(map[string]string{"dc1.tar.store": "precious"}, contents(t, place)); diff != "" {
		t.Error(diff)
	}
}
