package images

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/efi/boot"
	"writ/efi/deb"
	"writ/efi/image"
	"writ/efi/libraries"
	"writ/efi/recipe"
	"writ/efi/uki"
)

// efiSources hold the locations of the parts of an image.
type efiSources struct {
	kernel, modules, stub, program string
	packages                       string // directory of packages with all parts except the program
	recipe                         string // path of the recipe; "" selects the built-in recipe for the kernel

	root     *os.Root // directory of the unpacked packages; nil without packages
	unpacked []usedPackage
}

// usedPackage is an unpacked package.
type usedPackage struct {
	deb.Package
	SHA256 string // digest of the package file
}

func (p *usedPackage) pin() recipe.Pin {
	return recipe.Pin{Package: p.Name, Version: p.Version, SHA256: p.SHA256}
}

// Paths of the required files in packages. Packages of later releases have all files below usr.
const (
	packedKernel      = "boot/vmlinuz-"
	packedStub        = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	packedAuthorities = "usr/share/ca-certificates"
)

var (
	packedModules  = []string{"lib/modules", "usr/lib/modules"}
	packedFirmware = []string{"lib/firmware", "usr/lib/firmware"}
)

// unusedOfPackages lists directories of packages that an image never needs.
var unusedOfPackages = []string{"usr/share/doc/", "usr/share/man/", "usr/share/locale/"}

// usedOfPackages reports whether a file of a package can become part of an image.
func usedOfPackages(name string) bool {
	return strings.Contains(name, "/") &&
		!slices.ContainsFunc(unusedOfPackages, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// unpack extracts the packages, if any, into a temporary directory. done removes the directory.
func (s *efiSources) unpack() (done func(), err error) {
	if s.packages == "" {
		return func() {}, nil
	}
	if s.kernel+s.modules+s.stub != "" {
		return nil, writ.Errorf(writ.CodeUsage, "--packages already contains the kernel, the modules and the stub").
			WithHint("omit --kernel, --modules and --stub, or omit --packages")
	}
	dir, err := os.MkdirTemp("", "writ-efi-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the packages: %w", err)
	}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	done = func() { s.root.Close(); _ = os.RemoveAll(dir) }
	if s.unpacked, err = unpackPackages(s.packages, s.root, usedOfPackages); err == nil {
		err = s.find(dir)
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// unpackPackages extracts the wanted files of all packages in a directory.
func unpackPackages(dir string, root *os.Root, wanted func(string) bool) (all []usedPackage, err error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read --packages: %v", err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "cannot read --packages: %v", err)
		}
		p, err := deb.Unpack(bytes.NewReader(text), root, wanted)
		if err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "cannot unpack %s: %v", name, err).
				WithHint("download it again with `apt-get download`, and keep one version of each package")
		}
		all = append(all, usedPackage{*p, digestOf(text)})
	}
	return all, nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// find locates the required parts in the unpacked packages.
func (s *efiSources) find(dir string) error {
	kernels, _ := filepath.Glob(filepath.Join(dir, packedKernel+"*"))
	if len(kernels) != 1 {
		return writ.Errorf(writ.CodeUsage, "--packages %s has %d kernels", s.packages, len(kernels)).
			WithHint("put one package linux-image-VERSION-cloud-amd64 there, and systemd-boot-efi")
	}
	s.kernel, s.stub = kernels[0], filepath.Join(dir, packedStub)
	version := strings.TrimPrefix(kernels[0], filepath.Join(dir, packedKernel))
	for _, above := range packedModules {
		if there, err := os.Stat(filepath.Join(dir, above, version)); err == nil && there.IsDir() {
			s.modules = filepath.Join(dir, above, version)
		}
	}
	if _, err := os.Stat(s.stub); err != nil {
		return writ.Errorf(writ.CodeUsage, "--packages %s has no linuxx64.efi.stub", s.packages).
			WithHint("also download systemd-boot-efi to this directory")
	}
	return nil
}

// read loads the parts of an image, and applies the recipe.
func (s *efiSources) read(into *image.Recipe) (*recipe.Recipe, error) {
	if s.program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		s.program = own
	}
	if s.modules == "" {
		return nil, writ.Errorf(writ.CodeUsage, "--modules is missing").
			WithHint("or --packages, with a directory of Debian packages")
	}
	into.Modules = os.DirFS(s.modules)
	for _, part := range []struct {
		flag, file string
		into       *[]byte
	}{{"kernel", s.kernel, &into.Kernel}, {"stub", s.stub, &into.Stub}, {"program", s.program, &into.Program}} {
		if part.file == "" {
			return nil, writ.Errorf(writ.CodeUsage, "--%s is missing", part.flag).WithHint("writ efi build --help")
		}
		text, err := os.ReadFile(part.file)
		if err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "cannot read --%s: %v", part.flag, err)
		}
		*part.into = text
	}
	r, err := s.readRecipe(into.Kernel)
	if err != nil {
		return nil, err
	}
	return r, s.follow(r, into)
}

// readRecipe reads the recipe of the operator, or the built-in one for the kernel.
func (s *efiSources) readRecipe(kernel []byte) (*recipe.Recipe, error) {
	if s.recipe == "" {
		version, err := uki.KernelVersion(kernel)
		if err != nil {
			return nil, err
		}
		text, err := recipe.Text(recipe.For(version))
		if err != nil {
			return nil, err
		}
		return recipe.Parse([]byte(text))
	}
	text, err := os.ReadFile(s.recipe)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read --recipe: %v", err).
			WithHint("`writ efi recipe cloud` prints a recipe")
	}
	return recipe.Parse(text)
}

// follow adds the parts that a recipe names to the image.
func (s *efiSources) follow(r *recipe.Recipe, into *image.Recipe) error {
	var pins []recipe.Pin
	for _, p := range s.unpacked {
		pins = append(pins, p.pin())
	}
	if err := r.CheckPackages(pins); err != nil {
		return err
	}
	into.Cmdline = cmp.Or(into.Cmdline, r.Cmdline)
	into.Wanted, into.Start, into.Names = r.Modules.Wanted, r.Modules.Start, slices.Concat(r.Modules.Required, into.Names)
	into.FirmwareFiles, into.FirmwareOfModules = r.Firmware.Files, r.Firmware.Modules
	if s.root != nil {
		into.Firmware, into.Packages = unpackedFirmware{s.root.FS()}, s.root.FS()
	}
	var err error
	if into.Authorities, err = s.authorities(r); err != nil {
		return err
	}
	for _, p := range r.Programs {
		if p.Optional && s.packageOf(p.Package) == nil {
			continue
		}
		for i, file := range append([]recipe.File{p.File}, p.Files...) {
			data, from, err := s.file(file)
			if err != nil {
				return err
			}
			into.Extra = append(into.Extra, image.Extra{Name: file.At, Program: i == 0, From: from, Data: data})
		}
	}
	for _, service := range r.Services {
		into.Services = append(into.Services, boot.Service(service))
	}
	return nil
}

// has reports whether a package has a file. It ignores the prefix usr/, because later releases have all files below
// usr.
func (p *usedPackage) has(file string) bool {
	return slices.ContainsFunc(p.Files, func(f string) bool {
		return strings.TrimPrefix(f, "usr/") == strings.TrimPrefix(strings.TrimPrefix(file, "/"), "usr/")
	})
}

// packageOf returns an unpacked package, or nil.
func (s *efiSources) packageOf(name string) *usedPackage {
	i := slices.IndexFunc(s.unpacked, func(p usedPackage) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.unpacked[i]
}

// file reads a file that a recipe names. `from` is its path in the unpacked packages, "" if the file is not from a
// package.
func (s *efiSources) file(file recipe.File) (data []byte, from string, err error) {
	name := file.File
	switch {
	case file.Package != "":
		name = file.Package + ": " + name
		data, from, err = s.packed(file)
	default:
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(s.recipe), name)
		}
		if data, err = os.ReadFile(name); err != nil {
			err = writ.Errorf(writ.CodeUsage, "cannot read a file of the recipe: %v", err).
				WithHint("a relative path starts at the directory of the recipe")
		}
	}
	if err != nil {
		return nil, "", err
	}
	if got := digestOf(data); file.SHA256 != "" && got != file.SHA256 {
		return nil, "", writ.Errorf(writ.CodeUsage, "%s has the SHA-256 %s, the recipe requires %s", name, got, file.SHA256).
			WithHint("fetch the right file, or verify this one and change the recipe")
	}
	return data, from, nil
}

// packed reads a file of a package.
func (s *efiSources) packed(file recipe.File) (data []byte, from string, err error) {
	p := s.packageOf(file.Package)
	if p == nil {
		return nil, "", writ.Errorf(writ.CodeUsage, "the recipe needs %s of the package %s, which is missing", file.File,
			file.Package).
			WithHint("in the directory of --packages: apt-get download %s", file.Package)
	}
	if !p.has(file.File) {
		return nil, "", writ.Errorf(writ.CodeUsage, "the package %s has no file %s", file.Package, file.File).
			WithHint("dpkg -c lists the files of a package")
	}
	data, from, err = libraries.NewTree(s.root.FS()).Read(file.File)
	if err != nil {
		return nil, "", writ.Errorf(writ.CodeUsage, "cannot read %s of the package %s: %v", file.File, file.Package, err).
			WithHint("if it is a link to a file of another package, download that package as well")
	}
	return data, from, nil
}

// unpackedFirmware is the file system with the firmware of all packages. It looks for a file in both firmware
// directories.
type unpackedFirmware struct{ root fs.FS }

func (u unpackedFirmware) Open(name string) (file fs.File, err error) {
	for _, dir := range packedFirmware {
		if file, err = u.root.Open(path.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}

// Glob returns the sorted names of the files that match.
func (u unpackedFirmware) Glob(pattern string) (names []string, err error) {
	for _, dir := range packedFirmware {
		found, err := fs.Glob(u.root, dir+"/"+pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(name, dir+"/"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// authorities returns the CA certificates that a recipe requires, concatenated.
func (s *efiSources) authorities(r *recipe.Recipe) (all []byte, err error) {
	add := func(name string, text []byte) error {
		n := 0
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
				return writ.Errorf(writ.CodeUsage, "%s has a block that is not a certificate: %s", name, block.Type).
					WithHint("the file must contain certificates only; a private key must not be in an image")
			}
			all, n = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...), n+1
		}
		if n == 0 {
			return writ.Errorf(writ.CodeUsage, "%s has no certificate in PEM", name).
				WithHint("openssl x509 -inform DER -in FILE writes one in PEM")
		}
		return nil
	}
	if r.Certificates.Packages && s.root != nil {
		err := fs.WalkDir(s.root.FS(), packedAuthorities, func(name string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return fs.SkipAll // no package has certificates
			}
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(s.root.FS(), name)
			if err != nil {
				return err
			}
			return add(name, text)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range r.Certificates.Files {
		text, _, err := s.file(recipe.File{File: name})
		if err != nil {
			return nil, err
		}
		if err := add(name, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}
