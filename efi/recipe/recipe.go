// Package recipe reads what operators write about node images: which modules, firmware, programs and certificates one has, and from which packages
// it may be made. It knows the form of that text and what is possible in it; it must not know how an image is made, nor read what it names.
package recipe

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"writ"
	"writ/internal/yamltext"
)

// Recipe is what an image is made of, besides a kernel and writ.
type Recipe struct {
	Cmdline      string       `json:"cmdline,omitempty"` // of the kernel
	Modules      Modules      `json:"modules"`
	Firmware     Firmware     `json:"firmware"`
	Certificates Certificates `json:"certificates"`
	Programs     []Program    `json:"programs,omitempty"`
	Services     []Service    `json:"services,omitempty"` // in the order in which they start
	Packages     []Pin        `json:"packages,omitempty"` // all that may be used; any if there are none
}

// Modules are those of the kernel, each with what it needs.
type Modules struct {
	Wanted   []string `json:"wanted,omitempty"`   // taken if the kernel has them
	Start    []string `json:"start,omitempty"`    // the same, and loaded at the start
	Required []string `json:"required,omitempty"` // taken and loaded at the start; without them there is no image
}

// Firmware are files below lib/firmware of packages.
type Firmware struct {
	Modules bool     `json:"modules,omitempty"` // those that modules of the image may ask for, if there are any
	Files   []string `json:"files,omitempty"`   // patterns as bnx2x/*.fw, each of which must match
}

// Certificates are authorities that programs of the image believe.
type Certificates struct {
	Packages bool     `json:"packages,omitempty"` // those of Debian's package ca-certificates, if it is there
	Files    []string `json:"files,omitempty"`    // in PEM
}

// Program is one that the image has besides writ, with files that it needs. Its libraries need no line: they follow from the program.
type Program struct {
	File
	Optional bool   `json:"optional,omitempty"` // left out, with its files, if its package is not there
	Files    []File `json:"files,omitempty"`
}

// Service is a program of the image that runs for as long as the machine does.
type Service struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`          // where the program is in the image, then its arguments
	Socket  string   `json:"socket,omitempty"` // of the image, at which the program answers when it is ready
}

// File is a file of this machine, or of a package, and its place in the image.
type File struct {
	Package string `json:"package,omitempty"` // which has the file; it is of this machine if ""
	File    string `json:"file"`              // beside the recipe if its name is relative
	At      string `json:"at"`                // where the package has it, if that is not given
	SHA256  string `json:"sha256,omitempty"`  // any content if it is not given
}

// Pin is a package that may be used.
type Pin struct {
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // of its file
}

//go:embed cloud.yaml metal.yaml
var defaults embed.FS

// The recipes that there are.
const (
	Cloud = "cloud" // virtual machines
	Metal = "metal" // physical machines, and virtual ones
)

// Names lists them.
func Names() []string { return []string{Cloud, Metal} }

// Text is one of them, for people who want to change it.
func Text(name string) (string, error) {
	text, err := defaults.ReadFile(name + ".yaml")
	if err != nil || !slices.Contains(Names(), name) {
		return "", writ.Errorf(writ.CodeUsage, "there is no recipe %q", name).WithHint("there are %s", strings.Join(Names(), " and "))
	}
	return string(text), nil
}

// Schema is the form of recipes as JSON Schema, for editors. Parse knows more: it is what counts.
//
//go:embed recipe.schema.json
var Schema string

// For names the recipe that suits a kernel: Debian's kernel for clouds has no drivers of physical machines.
func For(kernel string) string {
	if strings.Contains(kernel, "-cloud-") {
		return Cloud
	}
	return Metal
}

// Parse reads a recipe. It refuses what it does not know, so that a typing error is no module less.
func Parse(text []byte) (*Recipe, error) {
	r := &Recipe{}
	if err := yamltext.Decode(text, r); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the recipe cannot be read: %v", err).WithHint("`writ efi recipe metal` prints one with all its fields")
	}
	r.place()
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// place gives files of packages the place that they have there. An image has programs below /usr only, as later releases of Debian do.
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
	packagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	modulePattern  = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	sumPattern     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// hidden are directories of a machine over which the first process mounts others.
var hidden = []string{"dev", "proc", "run", "sys", "tmp", "var/lib/writ"}

func (r *Recipe) check() error {
	for _, name := range slices.Concat(r.Modules.Wanted, r.Modules.Start, r.Modules.Required) {
		if !modulePattern.MatchString(name) {
			return writ.Errorf(writ.CodeUsage, "the recipe has a module %q", name).WithHint("write the name as lsmod shows it, such as virtio_net")
		}
	}
	for _, pattern := range r.Firmware.Files {
		if _, err := path.Match(pattern, ""); err != nil || !fs.ValidPath(pattern) {
			return writ.Errorf(writ.CodeUsage, "the recipe has a pattern of firmware %q", pattern).WithHint("write it as it is below lib/firmware: bnx2x/*.fw")
		}
	}
	for _, file := range r.Files() {
		if err := file.check(); err != nil {
			return err
		}
	}
	for _, p := range r.Programs {
		if p.Optional && p.Package == "" {
			return writ.Errorf(writ.CodeUsage, "the recipe has %s as optional, and it is from no package", p.File.File).WithHint("name its package, or take optional away")
		}
	}
	for _, pin := range r.Packages {
		if pin.Package == "" || pin.Version == "" || !sumPattern.MatchString(pin.SHA256) {
			return writ.Errorf(writ.CodeUsage, "the recipe pins the package %q without a version or a SHA-256 of 64 hex digits", pin.Package).
				WithHint("`writ efi recipe cloud --packages DIR` prints the pins of a directory")
		}
	}
	return nil
}

// Files lists the files that an image has besides: programs, and what they need.
func (r *Recipe) Files() (files []File) {
	for _, p := range r.Programs {
		files = append(append(files, p.File), p.Files...)
	}
	return files
}

func (f *File) check() error {
	clean := path.IsAbs(f.At) && path.Clean(f.At) == f.At && f.At != "/"
	isHidden := slices.ContainsFunc(hidden, func(dir string) bool { return f.At == "/"+dir || strings.HasPrefix(f.At, "/"+dir+"/") })
	switch {
	case f.Package != "" && (!packagePattern.MatchString(f.Package) || !path.IsAbs(f.File) || path.Clean(f.File) != f.File):
		return writ.Errorf(writ.CodeUsage, "the recipe has a file %q of the package %q", f.File, f.Package).
			WithHint("write the name of the package, and the whole path of the file in it: package: runc, file: /usr/sbin/runc")
	case f.File == "" || !clean:
		return writ.Errorf(writ.CodeUsage, "the recipe has a file %q at %q", f.File, f.At).WithHint("write where it is now, and its whole path in the image: file: bin/tool, at: /usr/bin/tool")
	case isHidden:
		return writ.Errorf(writ.CodeUsage, "the recipe has %s at %s, where no file of an image is seen", f.File, f.At).WithHint("use /usr or /etc")
	case f.SHA256 != "" && !sumPattern.MatchString(f.SHA256):
		return writ.Errorf(writ.CodeUsage, "the recipe has a SHA-256 of %s that is none", f.File).WithHint("sha256sum %s", f.File)
	}
	return nil
}

// CheckPackages compares packages with the pins of a recipe, which has all or none.
func (r *Recipe) CheckPackages(got []Pin) error {
	if len(r.Packages) == 0 {
		return nil
	}
	for _, pin := range r.Packages {
		if !slices.ContainsFunc(got, func(p Pin) bool { return p.Package == pin.Package }) {
			return writ.Errorf(writ.CodeUsage, "the recipe pins %s %s, which is not there", pin.Package, pin.Version).
				WithHint("apt-get download %s=%s, or take it out of the recipe", pin.Package, pin.Version)
		}
	}
	for _, p := range got {
		i := slices.IndexFunc(r.Packages, func(pin Pin) bool { return pin.Package == p.Package })
		switch {
		case i < 0:
			return writ.Errorf(writ.CodeUsage, "the recipe does not pin %s %s", p.Package, p.Version).WithHint("take the package away, or pin it")
		case r.Packages[i] != p:
			return writ.Errorf(writ.CodeUsage, "%s %s with the SHA-256 %s is not what the recipe pins: %s with %s", p.Package, p.Version, p.SHA256, r.Packages[i].Version, r.Packages[i].SHA256).
				WithHint("download the version that is pinned, or verify this one and pin it")
		}
	}
	return nil
}

// PinText is the part of a recipe that pins packages.
func PinText(packages []Pin) string {
	if len(packages) == 0 {
		return ""
	}
	packages = slices.SortedFunc(slices.Values(packages), func(a, b Pin) int { return strings.Compare(a.Package, b.Package) })
	text := "\n# Other packages, and other versions of these, are refused.\npackages:\n"
	for _, p := range packages {
		text += fmt.Sprintf("  - package: %s\n    version: %q\n    sha256: %q\n", p.Package, p.Version, p.SHA256)
	}
	return text
}
