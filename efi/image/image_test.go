package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"writ"
	"writ/efi/boot"
	"writ/internal/test/testenv"
)

// program returns a minimal executable, statically or dynamically linked.
func program(t *testing.T, machine elf.Machine, libraries bool) []byte {
	t.Helper()
	var out bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56,
	}
	if libraries {
		header.Phnum = 1
	}
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	if err := binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func recipe(t *testing.T) Recipe {
	t.Helper()
	kernel := testenv.Kernel(t)
	r := Recipe{Modules: os.DirFS(kernel.Modules), Wanted: []string{"virtio_net", "btrfs", "no_such_module"}, Start: []string{"tun"}, Program: program(t, elf.EM_X86_64, false), Cmdline: "console=ttyS0 quiet", Settings: []string{"writ.name=n1"}}
	for file, into := range map[string]*[]byte{kernel.Image: &r.Kernel, testenv.Unpacked(t, testenv.EFIStub): &r.Stub} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		*into = text
	}
	return r
}

// moved copies the files of a directory to another one with other modification times.
func moved(t *testing.T, files fs.FS) fs.FS {
	t.Helper()
	there := fstest.MapFS{}
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		there[file] = &fstest.MapFile{Data: text, ModTime: time.Unix(1, 0), Mode: 0o600}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// Promise: Machines from an image: Equal inputs produce equal images and disks.
// How: Files are sorted and have no times or owners; ids derive from the content.
// Also: TestEqualFilesMakeEqualDisks, TestTheSameFilesMakeTheSameArchive.
func TestEqualInputsMakeEqualImages(t *testing.T) {
	r := recipe(t)
	digest := func() string {
		made, err := r.Build()
		if err != nil {
			t.Fatal(err)
		}
		return made.Digest()
	}
	first := digest()
	r.Modules = moved(t, r.Modules)
	if second := digest(); first != second {
		t.Errorf("the digests are %s and %s", first, second)
	}
	r.Settings = []string{"writ.name=n2"}
	if digest() == first {
		t.Error("another setting makes the same image")
	}
}

func TestAnImageHasTheModulesAndTheProgram(t *testing.T) {
	r := recipe(t)
	r.Names = []string{"wireguard", "ni_pcidio"}
	made, err := r.Build()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, f := range made.Files {
		names[f.Name] = f.Size
	}
	modules := "lib/modules/" + made.Kernel
	for _, want := range []string{
		"usr/bin/writ", "etc/writ/boot.conf", modules + "/modules.dep", modules + "/kernel/drivers/net/virtio_net.ko", modules + "/kernel/drivers/net/wireguard/wireguard.ko",
		modules + "/kernel/fs/btrfs/btrfs.ko",
	} {
		if names[want] == 0 {
			t.Errorf("the image has no %s", want)
		}
	}
	if !slices.IsSortedFunc(made.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the files are listed without an order")
	}
	if !slices.Contains(made.Firmware, "niscrb01.bin") {
		t.Errorf("firmware of a module is missing: %q", made.Firmware)
	}
	i := slices.IndexFunc(made.Modules, func(m Module) bool { return m.Name == "virtio_net" })
	if i < 0 || made.Modules[i].License != "GPL" || names[made.Modules[i].File] == 0 {
		t.Errorf("the modules are %+v", made.Modules)
	}
	if !slices.Equal(made.Lacking, []string{"no_such_module"}) || made.Packed == 0 || len(made.Version) != 16 {
		t.Errorf("the image lacks %v, has %d bytes of files and the version %q", made.Lacking, made.Packed, made.Version)
	}
}

// Promise: Machines from an image: A token is neither in an image nor visible on the console, in `/proc/cmdline` or
// in a container.
// How: The build refuses a token, and no command takes one as an argument; the first process hides it and passes it
// to the runner in a file for root.
// Also: TestNoTextHasTheToken, TestTheFirstProcessPreparesAMachine, TestScripts/efi,
// TestContainerHasRequestedProperties.
func TestInputsThatMakeNoNodeAreRefused(t *testing.T) {
	good := recipe(t)
	for name, tt := range map[string]struct {
		spoil func(r *Recipe)
		says  string
	}{
		"a script as the program":   {func(r *Recipe) { r.Program = []byte("#!/bin/sh") }, "not a Linux program"},
		"another architecture":      {func(r *Recipe) { r.Program = program(t, elf.EM_AARCH64, false) }, "not for amd64"},
		"a program that wants libc": {func(r *Recipe) { r.Program = program(t, elf.EM_X86_64, true) }, "libraries"},
		"an invalid setting":        {func(r *Recipe) { r.Settings = []string{"writ.nam=n1"} }, "unknown setting"},
		"an unknown module":         {func(r *Recipe) { r.Names = []string{"abacus"} }, "no module abacus"},
		"missing modules":           {func(r *Recipe) { r.Modules = os.DirFS(t.TempDir()) }, "directory of modules"},
		"missing firmware":          {func(r *Recipe) { r.FirmwareFiles = []string{"bnx2x/*.fw"} }, "bnx2x/*.fw"},
		"an extra with another loader": {func(r *Recipe) {
			r.Extra = []Extra{{Name: "/usr/bin/tool", Program: true, Data: program(t, elf.EM_X86_64, true)}}
		}, "/usr/bin/tool has the loader"},
		"an extra without a program": {func(r *Recipe) { r.Extra = []Extra{{Name: "/usr/bin/tool", Program: true, Data: []byte("#!/bin/sh")}} }, "not a Linux program"},
		"an extra without its libraries": {func(r *Recipe) {
			r.Extra, r.Packages = []Extra{{Name: "/usr/sbin/mkfs.btrfs", Program: true, Data: mkfs(t)}}, fstest.MapFS{}
		}, "libc.so.6 for /usr/sbin/mkfs.btrfs"},
		"another /init":                {func(r *Recipe) { r.Extra = []Extra{{Name: "/usr/bin/writ", Data: []byte("x")}} }, "already has /usr/bin/writ"},
		"no kernel":                    {func(r *Recipe) { r.Kernel = nil }, "bzImage"},
		"a token for all its machines": {func(r *Recipe) { r.Settings = []string{"writ.join=writ2.x"} }, "writ.join"},
	} {
		r := good
		tt.spoil(&r)
		_, err := r.Build()
		if err == nil || !strings.Contains(err.Error(), tt.says) || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %q and a hint", name, err, tt.says)
		}
	}
}

// mkfs returns a dynamically linked program.
func mkfs(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(testenv.Need(t, "mkfs.btrfs"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Promise: Machines from an image: A program of an image has all libraries that the loader of glibc would load, from
// the packages of the build alone.
// How: writ reads the programs as the loader does; a test compares with the loader; a missing library fails the
// build.
// Also: TestInputsThatMakeNoNodeAreRefused, TestTheLibrariesAreThoseThatTheLoaderLoads,
// TestLibrariesThatThereAreNotAreNamedTogether.
func TestProgramsBringTheirLibraries(t *testing.T) {
	r := recipe(t)
	r.Packages = os.DirFS("/")
	r.Extra = []Extra{{Name: "/usr/sbin/mkfs.btrfs", Program: true, Data: mkfs(t)}}
	made, err := r.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libuuid.so.1"} {
		file := slices.IndexFunc(made.Files, func(f File) bool { return f.Name == want && f.Size > 0 })
		library := slices.IndexFunc(made.Libraries, func(l Library) bool { return l.File == want && l.From != "" })
		if file < 0 || library < 0 {
			t.Errorf("the image has no %s; it has %+v", want, made.Libraries)
		}
	}
	if again, err := r.Build(); err != nil || again.Digest() != made.Digest() {
		t.Errorf("the same programs make another image, %v", err)
	}
}

func TestFirmwareCertificatesAndProgramsAreTaken(t *testing.T) {
	r := recipe(t)
	r.Names = []string{"ni_pcidio"}
	r.Firmware = fstest.MapFS{"niscrb01.bin": {Data: []byte("first")}, "niscrb02.bin.xz": {Data: []byte("packed")}, "of/pattern.fw": {Data: []byte("p")}, "other.fw": {Data: []byte("o")}}
	r.FirmwareFiles = []string{"of/*.fw"}
	r.Authorities = []byte("-----BEGIN CERTIFICATE-----")
	r.Extra = []Extra{{Name: "/usr/bin/tool", Program: true, Data: program(t, elf.EM_X86_64, false)}, {Name: "/usr/share/tool/data", Data: []byte("d")}}
	r.Services = []boot.Service{{Name: "tool", Command: []string{"/usr/bin/tool", "serve"}}}
	for _, all := range []bool{false, true} {
		r.FirmwareOfModules = all
		made, err := r.Build()
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, f := range made.Files {
			there[f.Name] = true
		}
		for name, want := range map[string]bool{
			"lib/firmware/of/pattern.fw": true, "lib/firmware/other.fw": false, "lib/firmware/niscrb01.bin": all, "lib/firmware/niscrb02.bin.xz": all,
			"etc/ssl/certs/ca-certificates.crt": true, "usr/bin/tool": true, "usr/share/tool/data": true,
			"etc/writ/services.json": true,
		} {
			if there[name] != want {
				t.Errorf("firmware of modules %t: the image has %s: %t", all, name, there[name])
			}
		}
		if slices.Contains(made.Firmware, "niscrb01.bin") == all || slices.Contains(made.Firmware, "niscrb02.bin") == all {
			t.Errorf("firmware of modules %t: missing = %q", all, made.Firmware)
		}
	}
}
