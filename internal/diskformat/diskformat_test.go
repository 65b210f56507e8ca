package diskformat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// made returns a raw disk with a GPT and some data.
func made(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(path, bytes.Repeat([]byte("data of a disk, "), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(testenv.Need(t, "sfdisk"), "-q", path)
	c.Stdin = strings.NewReader("label: gpt\nsize=1000\n")
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, said)
	}
	return path
}

func recognise(t *testing.T, path string) (Format, bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	format, ok, err := Recognise(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return format, ok
}

func TestFormatsOfRealToolsAreRecognised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := made(t, dir)
	qemu := testenv.Need(t, "qemu-img")
	for _, tt := range []struct {
		command, want string
		boot          bool
	}{
		{"gzip -c disk.raw", "gzip", true},
		{"xz -T1 -0 -c disk.raw", "xz", true},
		{"bzip2 -1 -c disk.raw", "bzip2", true},
		{"zstd -q -1 -c disk.raw", "zstd", true},
		{"tar -c disk.raw", "tar", false},
		{"tar -cz disk.raw", "gzip", true},
		{"echo disk.raw | cpio -o -H newc --quiet", "cpio", true},
		{qemu + " convert -O qcow2 disk.raw OUT", "qcow2", false},
		{qemu + " convert -O vmdk disk.raw OUT", "VMDK", false},
		{qemu + " convert -O vmdk -o subformat=streamOptimized disk.raw OUT", "VMDK", false},
		{qemu + " convert -O vmdk -o subformat=monolithicFlat disk.raw OUT", "VMDK", false},
		{qemu + " convert -O vpc disk.raw OUT", "VHD", false},
		{qemu + " convert -O vpc -o subformat=fixed disk.raw OUT", "VHD", false},
		{qemu + " convert -O vhdx disk.raw OUT", "VHDX", false},
		{qemu + " convert -O vdi disk.raw OUT", "VDI", false},
		{qemu + " convert -O qed disk.raw OUT", "QED", false},
		{qemu + " convert -O parallels disk.raw OUT", "Parallels", false},
		{"mkdir -p deb/DEBIAN; printf 'Package: a\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b.c>\\nDescription: a\\n' >deb/DEBIAN/control; dpkg-deb -b deb OUT", "Debian package", false},
		{"ar r OUT disk.raw", "ar archive", false},
		{"head -c 900000 disk.raw", "cut off", false},
		{"head -c 0 disk.raw", "empty", false},
		{"cat disk.raw", "", false},
		{"dd if=/dev/zero bs=1M count=1 status=none", "", false},
	} {
		program, _, _ := strings.Cut(strings.TrimPrefix(tt.command, "echo disk.raw | "), " ")
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s: this machine has no %s", tt.command, program)
			continue
		}
		out := filepath.Join(dir, "out")
		line := strings.ReplaceAll(tt.command, "OUT", out)
		if line == tt.command {
			line += " >" + out
		}
		c := exec.Command("sh", "-c", line)
		c.Dir = filepath.Dir(disk)
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, said)
		}
		got, ok := recognise(t, out)
		if ok != (tt.want != "") || !strings.Contains(got.Name, tt.want) || got.Boot != tt.boot || ok && got.Remedy == "" {
			t.Errorf("%s: %+v, want %q", tt.command, got, tt.want)
		}
	}
}

// TestOtherFormatsAreRecognised has the first bytes of files whose tools are rare, and of file systems, with which a
// raw disk may begin.
func TestOtherFormatsAreRecognised(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]string{
		"Rar!\x1a\x07\x01\x00":             "a rar archive",
		"Rar!\x1a\x07\x00":                 "a rar archive",
		"\xed\xab\xee\xdb\x03\x00":         "an RPM package",
		"MSWIM\x00\x00\x00\xd0":            "a Windows image (WIM)",
		"MSCF\x00\x00\x00\x00":             "a cabinet archive",
		"%PDF-1.7\n":                       "a PDF document",
		"\x3a\xff\x26\xed\x01\x00":         "an Android sparse image",
		"partclone-image\x000002":          "a partclone image",
		"EVF\x09\x0d\x0a\xff\x00\x01":      "an EnCase image",
		"VMA\x00\x00\x00\x00\x01":          "a backup of Proxmox",
		"hsqs":                             "", // squashfs
		"XFSB":                             "", // XFS
		"LUKS\xba\xbe":                     "", // an encrypted disk
		"\xeb\x3c\x90MSDOS5.0":             "", // FAT
		"\xeb\x52\x90NTFS    ":             "",
		"Rare data at the start of a disk": "",
	} {
		text := start + strings.Repeat("\x00", 4096)
		got, ok, err := Recognise(strings.NewReader(text), int64(len(text)))
		if got.Name != want || ok != (want != "") || err != nil || ok && got.Remedy == "" {
			t.Errorf("%q: %+v, %v, want %q", start, got, err, want)
		}
	}
}

func TestTextsOfServersAreRecognised(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"<!DOCTYPE html>\n<title>Sign in</title>":                    true,
		"\ufeff \r\n<html><body>Zugriff verweigert: ü</body></html>": true,
		`<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`: true,
		`{"errors":[{"code":"UNAUTHORIZED"}]}`:                       true,
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\n": true,
		"<\x00\x00\x00": false,
		"{\x90\x90\x90": false,
		"\xeb\x63\x90":  false,
		"a":             false,
	} {
		got, ok, err := Recognise(strings.NewReader(text), int64(len(text)))
		if ok != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
