package image

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/internal/confine"
	"writ/internal/confine/confinetest"
	"writ/internal/test/testenv"
	"writ/sal/saltest"
)

// TestMain lets this program act as a qemu-img that its input has compromised. The bytes after the header name the
// action to try, and the successful actions become the disk.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "qemu-img" {
		os.Exit(m.Run())
	}
	text, err := os.ReadFile("/dev/fd/3")
	if err != nil {
		panic(err)
	}
	var targets confinetest.Targets
	if err := json.NewDecoder(bytes.NewReader(text[headerBytes:])).Decode(&targets); err != nil {
		panic(err)
	}
	said := targets.Try()
	if f, err := os.OpenFile("/dev/fd/3", os.O_WRONLY, 0); err == nil {
		_ = f.Close()
		said = append(said, "write what it was given to read")
	}
	if err := os.WriteFile("/dev/fd/4", []byte(strings.Join(append(said, "done"), "\n")), 0); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// header returns the header of a disk of the given size.
func header(bytes int64) []byte {
	h := make([]byte, headerBytes)
	copy(h, magic)
	binary.BigEndian.PutUint32(h[4:], 3)
	binary.BigEndian.PutUint64(h[24:], uint64(bytes))
	return h
}

func needLandlock(t *testing.T) {
	t.Helper()
	_, err := confine.Landlock()
	testenv.NeedKernel(t, "Landlock", err)
}

// The converter runs as a separate user where the runner is root, and otherwise as the same user.
func TestACompromisedConverterReachesOnlyItsDisk(t *testing.T) {
	needLandlock(t)
	targets := confinetest.Outside(t)
	targets.Memory = convertMemory
	bin := filepath.Join(filepath.Dir(targets.File), "bin")
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "qemu-img"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	told, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	disk := append(header(4096), told...)
	s := newImageServer(t, map[string][]byte{"/disk": disk})
	accounts := []*confine.Accounts{nil}
	if os.Geteuid() == 0 {
		accounts = append(accounts, saltest.Accounts(t.TempDir()))
	}
	for _, a := range accounts {
		b := newFixture(t, s)
		b.Accounts = a
		if _, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/disk", "sha256": sum(disk), "format": "qcow2"}); err != nil {
			t.Fatalf("%s: %v", a.About(), err)
		}
		image, err := b.Image(t.Context(), saltest.Resource("", "").Project, writ.Ref{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		made, err := os.ReadFile(image.Path)
		if err != nil || string(bytes.TrimRight(made, "\x00")) != "done" {
			t.Errorf("%s, %v: successful actions:\n%s", a.About(), err, made)
		}
		if info, err := os.Stat(image.Path); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%s: the image has another owner: %v", a.About(), err)
		}
	}
}

// The real program opens no other file, even if the header was not checked.
func TestADiskOfManyFilesIsReadAsOne(t *testing.T) {
	needLandlock(t)
	qemu := testenv.Need(t, "qemu-img")
	secret := filepath.Join(confinetest.Outside(t).Dir, "secret.raw")
	content := bytes.Repeat([]byte("what somebody else has on a disk"), 2048)
	if err := os.WriteFile(secret, content, 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(filepath.Dir(secret), "data.raw")
	outside := qcow2(t, qemu, "-f", "qcow2", "-o", "data_file="+data+",data_file_raw=on", "1M")
	if err := os.WriteFile(data, bytes.Repeat(content, 16), 0o644); err != nil {
		t.Fatal(err)
	}
	disks := map[string][]byte{
		"a backing file":     qcow2(t, qemu, "-f", "qcow2", "-b", secret, "-F", "raw"),
		"a pseudo protocol":  qcow2(t, qemu, "-f", "qcow2", "-u", "-b", `json:{"driver":"raw","file":{"driver":"file","filename":"`+secret+`"}}`, "-F", "raw", "1M"),
		"a server":           qcow2(t, qemu, "-f", "qcow2", "-u", "-b", "nbd://127.0.0.1:1/x", "-F", "raw", "1M"),
		"data in a file":     outside,
		"a descriptor":       qcow2(t, qemu, "-f", "qcow2", "-u", "-b", "/dev/fd/0", "-F", "raw", "1M"),
		"itself":             qcow2(t, qemu, "-f", "qcow2", "-u", "-b", "/dev/fd/3", "-F", "raw", "1M"),
		"more than there is": append(header(1<<62), make([]byte, 512)...),
		"tables of terabytes": func() []byte {
			h := header(1 << 50)
			binary.BigEndian.PutUint32(h[20:], 16)    // bits of a cluster
			binary.BigEndian.PutUint32(h[36:], 1<<31) // entries of its first table
			return append(h, make([]byte, 1<<16)...)
		}(),
	}
	for name, disk := range disks {
		b := newFixture(t, newImageServer(t, nil))
		if os.Geteuid() == 0 {
			b.Accounts = saltest.Accounts(b.host)
		}
		dir := t.TempDir()
		p := &part{reporter: &reporter{}, to: filepath.Join(dir, "part"), made: filepath.Join(dir, "made")}
		if err := os.WriteFile(p.to, disk, 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := os.Open(p.to)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		to, err := os.Create(p.made)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if err := to.Truncate(1 << 20); err != nil {
			t.Fatal(err)
		}
		converted := (conversion{p, b.Accounts}).confined(t.Context(), qemu, from, to, 1<<20)
		text, err := io.ReadAll(io.NewSectionReader(to, 0, 2<<20))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, content[:32]) || len(text) > 1<<20 {
			t.Errorf("%s: image contains another file, %d bytes (%v)", name, len(text), converted)
		}
		if converted != nil && (writ.CodeOf(converted) != writ.CodeArgumentsInvalid || strings.Contains(converted.Error(), "/")) {
			t.Errorf("%s: %v", name, converted)
		}
	}
}

func TestDescribeReportsTheConverter(t *testing.T) {
	needLandlock(t)
	testenv.Need(t, "qemu-img")
	if detail := (&Driver{Dir: t.TempDir()}).Describe().Detail; !strings.Contains(detail, "qcow2") || strings.Contains(detail, "no qcow2") {
		t.Errorf("it says %q", detail)
	}
	t.Setenv("PATH", t.TempDir())
	if detail := (&Driver{Dir: t.TempDir()}).Describe().Detail; !strings.Contains(detail, "but no qcow2: this node lacks the program qemu-img") {
		t.Errorf("it says %q", detail)
	}
}
