// Package recipe parses the recipes of node images: modules, firmware, programs and certificates, and the packages that
// may be used. It checks the format and its rules. It does not depend on the building of images, and does not read the
// files that a recipe names.
package recipe

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
	"writ/internal/yamltext"
)

// Recipe describes an image, apart from its kernel and writ.
type Recipe struct {
	Cmdline      string       `json:"cmdline,omitempty"` // of the kernel
	Modules      Modules      `json:"modules"`
	Firmware     Firmware     `json:"firmware"`
	Certificates Certificates `json:"certificates"`
	Programs     []Program    `json:"programs,omitempty"`
	Services     []Service    `json:"services,omitempty"` // in start order
	Packages     []Pin        `json:"packages,omitempty"` // the only packages that may be used; any if empty
}

// Modules selects modules of the kernel. Dependencies are included.
type Modules struct {
	Wanted   []string `json:"wanted,omitempty"`   // included if the kernel has them
	Start    []string `json:"start,omitempty"`    // like Wanted, and loaded at the start
	Required []string `json:"required,omitempty"` // like Start, but a missing module is an error
}

// Firmware selects files below lib/firmware of packages.
type Firmware struct {
	// Modules includes existing files that modules of the image may request.
	Modules bool     `json:"modules,omitempty"`
	Files   []string `json:"files,omitempty"` // patterns such as bnx2x/*.fw; a pattern without a match is an error
}

// Certificates selects the authorities that programs of the image trust.
type Certificates struct {
	Packages bool     `json:"packages,omitempty"` // whether to include Debian's package ca-certificates, if present
	Files    []string `json:"files,omitempty"`    // PEM files
}

// Program is an additional program with its files. Its libraries are found automatically.
type Program struct {
	File
	Optional bool   `json:"optional,omitempty"` // whether to omit the program and its files if its package is missing
	Files    []File `json:"files,omitempty"`
}

// Service is a program of the image that runs all the time.
type Service struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // path of the program in the image, then arguments
	// Socket is the Unix socket in the image that accepts connections when the program is ready.
	Socket string `json:"socket,omitempty"`
}

// File is a file of the build machine or of a package, and its place in the image.
type File struct {
	Package string `json:"package,omitempty"` // package with the file; "" if the file is on the build machine
	File    string `json:"file"`              // a relative path starts at the recipe's directory
	At      string `json:"at"`                // path in the image; by default the path in the package
	SHA256  string `json:"sha256,omitempty"`  // "" to accept any content
}

// Pin is a package that may be used.
type Pin struct {
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // of the package file
}

//go:embed cloud.yaml metal.yaml
var defaults embed.FS

// Names of the built-in recipes.
const (
	Cloud = "cloud" // virtual machines
	Metal = "metal" // physical and virtual machines
)

// Names lists the built-in recipes.
func Names() []string { return []string{Cloud, Metal} }

// Text returns the text of a built-in recipe, as a starting point for changes.
func Text(name string) (string, error) {
	text, err := defaults.ReadFile(name + ".yaml")
	if err != nil || !slices.Contains(Names(), name) {
		return "", writ.Errorf(writ.CodeUsage, "unknown recipe %q", name).
			WithHint("there are %s", strings.Join(Names(), " and "))
	}
	return string(text), nil
}

// Schema is the JSON Schema of recipes, for editors. Parse enforces additional rules.
//
//go:embed recipe.schema.json
var Schema string

// For returns the name of the built-in recipe for a kernel version. Debian's cloud kernel has no drivers for physical
// machines.
func For(kernel string) string {
	if strings.Contains(kernel, "-cloud-") {
		return Cloud
	}
	return Metal
}

// Parse parses a recipe. Unknown fields are errors, so that a typo does not silently drop a module.
func Parse(text []byte) (*Recipe, error) {
	r := &Recipe{}
	if err := yamltext.Decode(text, r); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the recipe cannot be read: %v", err).
			WithHint("`writ efi recipe metal` prints one with all its fields")
	}
	r.place()
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// place sets the default paths of files from packages. Programs are moved below /usr, as in newer Debian releases.
func (r *Recipe) place() {
	at := func(f *File) {
		if f.Package == "" || f.At != "" {
			return
		}
		f.At = f.File
		if dir, _, _ := strings.Cut(strings.TrimPrefix(f.File, "/"), "/"); dir == "bin" || dir == "sbin" {
			f.At = "/usr" + f.File
		}
	}
	for i := range r.Programs {
		at(&r.Programs[i].File)
		for j := range r.Programs[i].Files {
			at(&r.Programs[i].Files[j])
		}
	}
}

var (
	packagePattern = lazyregexp.New(`^[a-z0-9][a-z0-9+.-]+$`)
	modulePattern  = lazyregexp.New(`^[A-Za-z0-9_-]+$`)
	sumPattern     = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// hidden lists directories that the first process covers with mounts.
var hidden = []string{"dev", "proc", "run", "sys", "tmp", "var/lib/writ"}

func (r *Recipe) check() error {
	for _, name := range slices.Concat(r.Modules.Wanted, r.Modules.Start, r.Modules.Required) {
		if !modulePattern.MatchString(name) {
			return writ.Errorf(writ.CodeUsage, "invalid module name %q in the recipe", name).
				WithHint("write the name as lsmod shows it, such as virtio_net")
		}
	}
	for _, pattern := range r.Firmware.Files {
		if _, err := path.Match(pattern, ""); err != nil || !fs.ValidPath(pattern) {
			return writ.Errorf(writ.CodeUsage, "invalid firmware pattern %q in the recipe", pattern).
				WithHint("write it relative to lib/firmware: bnx2x/*.fw")
		}
	}
	for _, file := range r.Files() {
		if err := file.check(); err != nil {
			return err
		}
	}
	for _, p := range r.Programs {
		if p.Optional && p.Package == "" {
			return writ.Errorf(writ.CodeUsage, "%s is optional in the recipe, but is not from a package", p.File.File).
				WithHint("name its package, or remove optional")
		}
	}
	for _, pin := range r.Packages {
		if pin.Package == "" || pin.Version == "" || !sumPattern.MatchString(pin.SHA256) {
			return writ.Errorf(writ.CodeUsage,
				"the recipe pins the package %q without a version or a SHA-256 of 64 hex digits", pin.Package).
				WithHint("`writ efi recipe cloud --packages DIR` prints the pins of a directory")
		}
	}
	return nil
}

// Files lists all programs of the recipe and their files.
func (r *Recipe) Files() (files []File) {
	for _, p := range r.Programs {
		files = append(append(files, p.File), p.Files...)
	}
	return files
}

func (f *File) check() error {
	clean := path.IsAbs(f.At) && path.Clean(f.At) == f.At && f.At != "/"
	isHidden := slices.ContainsFunc(hidden,
		func(dir string) bool { return f.At == "/"+dir || strings.HasPrefix(f.At, "/"+dir+"/") })
	switch {
	case f.Package != "" &&
		(!packagePattern.MatchString(f.Package) || !path.IsAbs(f.File) || path.Clean(f.File) != f.File):
		return writ.Errorf(writ.CodeUsage, "invalid file %q of the package %q in the recipe", f.File, f.Package).
			WithHint("write the name of the package, and the whole path of the file in it: package: runc, file: /usr/sbin/runc")
	case f.File == "" || !clean:
		return writ.Errorf(writ.CodeUsage, "invalid file %q at %q in the recipe", f.File, f.At).
			WithHint("write its current path, and its whole path in the image: file: bin/tool, at: /usr/bin/tool")
	case isHidden:
		return writ.Errorf(writ.CodeUsage, "the recipe has %s at %s, which is hidden by a mount", f.File, f.At).
			WithHint("use /usr or /etc")
	case f.SHA256 != "" && !sumPattern.MatchString(f.SHA256):
		return writ.Errorf(writ.CodeUsage, "invalid SHA-256 of %s in the recipe", f.File).
			WithHint("sha256sum %s", f.File)
	}
	return nil
}

// CheckPackages compares packages with the pins of the recipe. A recipe pins all packages or none.
func (r *Recipe) CheckPackages(got []Pin) error {
	if len(r.Packages) == 0 {
		return nil
	}
	for _, pin := range r.Packages {
		if !slices.ContainsFunc(got, func(p Pin) bool { return p.Package == pin.Package }) {
			return writ.Errorf(writ.CodeUsage, "the recipe pins %s %s, which is missing", pin.Package, pin.Version).
				WithHint("apt-get download %s=%s, or remove it from the recipe", pin.Package, pin.Version)
		}
	}
	for _, p := range got {
		i := slices.IndexFunc(r.Packages, func(pin Pin) bool { return pin.Package == p.Package })
		switch {
		case i < 0:
			return writ.Errorf(writ.CodeUsage, "the recipe does not pin %s %s", p.Package, p.Version).
				WithHint("remove the package, or pin it")
		case r.Packages[i] != p:
			return writ.Errorf(writ.CodeUsage, "%s %s with the SHA-256 %s differs from the pin: %s with %s", p.Package,
				p.Version, p.SHA256, r.Packages[i].Version, r.Packages[i].SHA256).
				WithHint("download the version that is pinned, or verify this one and pin it")
		}
	}
	return nil
}

// PinText returns the part of a recipe that pins packages.
func PinText(packages []Pin) string {
	if len(packages) == 0 {
		return ""
	}
	packages = slices.SortedFunc(slices.Values(packages),
		func(a, b Pin) int { return strings.Compare(a.Package, b.Package) })
	text := "\n# Other packages, and other versions of these, are refused.\npackages:\n"
	for _, p := range packages {
		text += fmt.Sprintf("  - package: %s\n    version: %q\n    sha256: %q\n", p.Package, p.Version, p.SHA256)
	}
	return text
}
