// Package image builds the image that a node boots: a kernel, its modules, writ as the first process, and the
// operator's programs with their libraries. The image is one file that runs from memory, and equal inputs produce equal
// bytes. The package defines the content of an image. It does not depend on the source of a kernel or on the way of an
// image to a machine.
package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"writ"
	"writ/efi/boot"
	"writ/efi/cpio"
	"writ/efi/modules"
	"writ/efi/uki"
)

// Recipe holds the inputs of an image.
type Recipe struct {
	Stub     []byte // systemd's linuxx64.efi.stub
	Kernel   []byte
	Modules  fs.FS    // the directory lib/modules/VERSION of that kernel
	Wanted   []string // names of modules to include if the kernel has them, with their dependencies
	Start    []string // like Wanted, and loaded at the start
	Names    []string // like Start, but a missing module is an error
	Program  []byte   // writ, statically linked
	Cmdline  string
	Settings []string // settings "writ.NAME=VALUE" for every machine that boots the image

	Firmware          fs.FS    // the directory lib/firmware of packages; may be nil
	FirmwareFiles     []string // patterns of files in Firmware to include; a pattern without a match is an error
	FirmwareOfModules bool     // whether to include the files that modules may request

	Packages fs.FS // files of packages, searched for libraries; may be nil

	Authorities []byte         // trusted certificates in PEM for programs of the image
	Extra       []Extra        // additional files
	Services    []boot.Service // programs among Extra that run all the time
}

// Extra is a file of the operator.
type Extra struct {
	Name    string // path in the image
	Program bool   // whether it is executable
	From    string // path among the files of packages, "" if it is not from a package
	Data    []byte
}

// AuthoritiesAt is the path where programs look for trusted certificates.
const AuthoritiesAt = "/etc/ssl/certs/ca-certificates.crt"

// firmwareAt is the path where the kernel looks for firmware.
const firmwareAt = "lib/firmware"

// Image is a built image with its content list.
type Image struct {
	Data    []byte
	Kernel  string   // kernel version
	Version string   // derived from the content of all files
	Files   []File   // files in memory after the start, by name
	Lacking []string // names in Wanted and Start that the kernel lacks
	Packed  int      // compressed size of the files in bytes
	// Firmware lists the files that modules of the image may request but the image lacks.
	Firmware []string
	Modules  []Module
	// Libraries lists the shared libraries added from packages. Loading lists programs and libraries that can load
	// further libraries at run time.
	Libraries []Library
	Loading   []string
}

// File is a file of an image.
type File struct {
	Name   string `json:"name"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// Module is a module of an image.
type Module struct {
	Name, License string
	File          string // path in the image
}

// Library is a shared library of an image.
type Library struct {
	File string // path in the image
	From string // path among the files of packages
}

// Digest returns the SHA-256 of the image in hex.
func (i *Image) Digest() string { return digest(i.Data) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Build builds the image.
func (r *Recipe) Build() (*Image, error) {
	image := &Image{}
	var err error
	if image.Kernel, err = uki.KernelVersion(r.Kernel); err != nil {
		return nil, err
	}
	const how = "name the program of a release with --program, or one linked with -tags netgo,osusergo -ldflags '-linkmode external -extldflags -static'"
	if err := checkStatic("the program", r.Program, how); err != nil {
		return nil, err
	}
	var settings boot.Config
	if err := settings.Read(strings.Join(r.Settings, " ")); err != nil {
		return nil, err
	}
	if settings.Join != "" {
		return nil, writ.Errorf(writ.CodeUsage,
			"writ.join is not allowed in an image: a token admits one node, and many can read an image").
			WithHint("pass it to the machine, on the command line of the kernel or in a credential")
	}
	archive := &files{image: image}
	if err := r.base(archive); err != nil {
		return nil, err
	}
	if err := r.modules(archive); err != nil {
		return nil, err
	}
	if err := r.firmware(archive); err != nil {
		return nil, err
	}
	if err := r.extras(archive); err != nil {
		return nil, err
	}
	initrd, err := archive.packed()
	if err != nil {
		return nil, err
	}
	image.Version = digest(initrd)[:16]
	release := osRelease + "IMAGE_VERSION=" + image.Version + "\nVERSION_ID=" + image.Kernel + "\n"
	// The machine reports the version of its image. The version is a digest of the other files, so this file is in a
	// separate archive.
	named := &files{image: image}
	named.file("etc/os-release", 0o644, []byte(release))
	name, err := named.packed()
	if err != nil {
		return nil, err
	}
	initrd = append(initrd, name...)
	image.Packed = len(initrd)
	image.Data, err = uki.Build(uki.Parts{
		Stub: r.Stub, Kernel: r.Kernel, Initrd: initrd, Cmdline: r.Cmdline,
		OSRelease: release,
	})
	return image, err
}

const osRelease = "ID=writ\nNAME=writ\nPRETTY_NAME=\"writ node\"\nIMAGE_ID=writ-node\n"

// checkStatic returns an error if a program needs shared libraries.
func checkStatic(name string, program []byte, how string) error {
	file, err := checkProgram(name, program, how)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		libraries, _ := file.ImportedLibraries() // without them the message is still correct
		return writ.Errorf(writ.CodeUsage, "%s needs libraries: %s", name,
			cmp.Or(strings.Join(libraries, ", "), "it has a loader")).
			WithHint("%s", how)
	}
	return nil
}

// checkProgram returns an error if a program cannot run on the machines of the image.
func checkProgram(name string, program []byte, how string) (*elf.File, error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	switch {
	case err != nil:
		return nil, writ.Errorf(writ.CodeUsage, "%s is not a Linux program: %v", name, err).WithHint("%s", how)
	case file.Machine != elf.EM_X86_64 || file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN:
		return nil, writ.Errorf(writ.CodeUsage, "%s is not for amd64", name).WithHint("%s", how)
	}
	return file, nil
}

// files collects the files of an image in an archive.
type files struct {
	image   *Image
	archive cpio.Archive
	failed  error
}

func (f *files) file(name string, perm fs.FileMode, data []byte) {
	if f.failed == nil {
		f.failed = f.archive.File(name, perm, data)
	}
	f.image.Files = append(f.image.Files, File{name, len(data), digest(data)})
}

func (f *files) text(name string, lines ...string) {
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	f.file(name, 0o644, []byte(text))
}

// packed returns the compressed archive.
func (f *files) packed() ([]byte, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	slices.SortFunc(f.image.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	// A single worker keeps the output independent of the number of CPUs.
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if _, err := f.archive.WriteTo(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// inside returns the archive name of a path in the image.
func inside(name string) string { return strings.TrimPrefix(name, "/") }

// base adds the files that do not depend on the kernel.
func (r *Recipe) base(f *files) error {
	for _, dir := range []string{
		"proc", "sys", "dev", "run", "tmp", "root", "mnt", "var/tmp", inside(path.Dir(boot.DataAt)),
	} {
		if err := f.archive.Dir(dir, 0o755); err != nil {
			return err
		}
	}
	f.file(inside(boot.Program), 0o755, r.Program)
	f.text("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin", "nobody:x:65534:65534:nobody:/:/sbin/nologin")
	f.text("etc/group", "root:x:0:", "nogroup:x:65534:")
	f.text("etc/hosts", "127.0.0.1 localhost", "::1 localhost")
	f.text(inside(boot.SettingsAt), r.Settings...)
	if err := f.archive.Symlink(inside(boot.ModprobeAt), boot.Program); err != nil {
		return err
	}
	return f.archive.Symlink("init", inside(boot.Program))
}

// modules adds the modules of the recipe and their lists.
func (r *Recipe) modules(f *files) error {
	index, err := modules.Scan(r.Modules)
	if err != nil {
		return err
	}
	start := slices.Clone(r.Start)
	wanted := slices.Clone(r.Names)
	has := func(name string) bool {
		found, builtin := index.Find(name)
		return len(found) > 0 || builtin
	}
	for _, name := range slices.Concat(r.Wanted, r.Start) {
		if has(name) {
			wanted = append(wanted, name)
		} else {
			f.image.Lacking = append(f.image.Lacking, name)
		}
	}
	all, err := index.Closure(wanted...)
	if err != nil {
		return err
	}
	dir := path.Join(inside(boot.ModulesAt), f.image.Kernel)
	for _, m := range all {
		object, err := index.Object(m)
		if err != nil {
			return fmt.Errorf("read the module %s: %w", m.Name, err)
		}
		f.file(path.Join(dir, m.Path), 0o644, object)
		f.image.Modules = append(f.image.Modules, Module{m.Name, m.License, path.Join(dir, m.Path)})
		f.image.Firmware = append(f.image.Firmware, m.Firmware...)
	}
	slices.Sort(f.image.Firmware)
	f.image.Firmware = slices.Compact(f.image.Firmware)
	for name, text := range index.Lists(all) {
		f.file(path.Join(dir, name), 0o644, text)
	}
	f.text(inside(boot.LoadAt),
		slices.Concat(slices.DeleteFunc(start, func(name string) bool { return !has(name) }), r.Names)...)
	return nil
}
