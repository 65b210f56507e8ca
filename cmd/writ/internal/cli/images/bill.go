package images

import (
	"bytes"
	"debug/pe"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"writ/efi/boot"
	"writ/efi/image"
	"writ/efi/sbom"
)

// Suffixes of the files that are written beside an image.
const (
	billEnd     = ".cdx.json"
	checksumEnd = ".sha256"
)

// describe writes the bill of materials of an image and its checksum beside the image.
func (s *efiSources) describe(target string, parts *image.Recipe, made *image.Image) error {
	bill, err := s.bill(filepath.Base(target), parts, made)
	if err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	if err := writeImage("image", target+billEnd, 0o644, bill); err != nil {
		return err
	}
	return writeImage("image", target+checksumEnd, 0o644, checksumOf(target, made.Digest()))
}

// checksumOf returns a line for sha256sum -c, which has to run in the directory of the file.
func checksumOf(target, digest string) []byte {
	return []byte(digest + "  " + filepath.Base(target) + "\n")
}

// bill lists the components of an image: packages with the modules, firmware, programs and libraries that were copied
// from them, programs with their Go modules, and other files.
func (s *efiSources) bill(name string, parts *image.Recipe, made *image.Image) ([]byte, error) {
	digests := map[string]string{}
	for _, f := range made.Files {
		digests[f.Name] = f.SHA256
	}
	taken := map[string]sbom.Component{} // components that are parts of packages, by their path in a package
	for _, m := range made.Modules {
		taken[inPackage(m.File)] = sbom.Component{
			Type: "device-driver", Name: m.Name, License: m.License, SHA256: digests[m.File],
		}
	}
	for _, f := range made.Files {
		if strings.HasPrefix(f.Name, packedFirmware[0]+"/") {
			taken[inPackage(f.Name)] = sbom.Component{Type: "firmware", Name: f.Name, SHA256: f.SHA256}
		}
	}
	for _, l := range made.Libraries {
		taken[inPackage(l.From)] = sbom.Component{Type: "library", Name: path.Base(l.File), SHA256: digests[l.File]}
	}
	for _, extra := range parts.Extra {
		if extra.From != "" {
			taken[inPackage(extra.From)] = componentOf(extra)
		}
	}
	var list []sbom.Component
	for _, p := range s.unpacked {
		c, used := sbom.Debian(p.Name, p.Version, p.Architecture, p.SHA256), false
		for _, file := range p.Files {
			part, ok := taken[inPackage(file)]
			if ok {
				c.Parts = append(c.Parts, part)
				delete(taken, inPackage(file))
			}
			used = used || ok || file == packedStub || strings.HasPrefix(file, packedKernel) ||
				strings.HasPrefix(file, packedAuthorities) && len(parts.Authorities) > 0
		}
		if used {
			list = append(list, c)
		}
	}
	if s.root == nil {
		// The operator unpacked these files. Their own metadata is the only source.
		kernel := sbom.Component{
			Type: "operating-system", Name: "linux", Version: made.Kernel, SHA256: digestOf(parts.Kernel),
			License: "GPL-2.0-only",
		}
		for _, part := range taken {
			kernel.Parts = append(kernel.Parts, part)
		}
		list = append(list, kernel,
			sbom.Component{
				Type: "firmware", Name: "systemd-stub", Version: stubVersion(parts.Stub), SHA256: digestOf(parts.Stub),
				License: "LGPL-2.1-or-later",
			})
	}
	list = append(list, programOf(boot.Program, parts.Program, "Apache-2.0"))
	for _, extra := range parts.Extra {
		if extra.From == "" {
			list = append(list, componentOf(extra))
		}
	}
	if len(parts.Authorities) > 0 {
		list = append(list, sbom.Component{Type: "file", Name: image.AuthoritiesAt, SHA256: digestOf(parts.Authorities)})
	}
	return sbom.Encode(sbom.Component{Type: "firmware", Name: name, Version: made.Version, SHA256: made.Digest()}, list)
}

// inPackage returns the part of a file's name that is the same in all releases of a package. It removes the prefix usr/
// and the suffix of a compression.
func inPackage(name string) string {
	name = strings.TrimPrefix(name, "usr/")
	if ending := path.Ext(name); slices.Contains([]string{".xz", ".zst", ".gz"}, ending) {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// componentOf describes a file of the operator, or of a package that the operator selected.
func componentOf(extra image.Extra) sbom.Component {
	if extra.Program {
		return programOf(extra.Name, extra.Data, "")
	}
	return sbom.Component{Type: "file", Name: extra.Name, SHA256: digestOf(extra.Data)}
}

func programOf(at string, program []byte, license string) sbom.Component {
	version, modules := sbom.GoModules(program)
	return sbom.Component{
		Type: "application", Name: path.Base(at), Version: version, SHA256: digestOf(program), License: license,
		Parts: modules,
	}
}

// stubVersion returns the version that systemd's stub contains, as in "#### LoaderInfo: systemd-stub 252.39-1~deb12u2
// ####", or "".
func stubVersion(stub []byte) string {
	file, err := pe.NewFile(bytes.NewReader(stub))
	if err != nil || file.Section(".sdmagic") == nil {
		return ""
	}
	text, err := file.Section(".sdmagic").Data()
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), "systemd-stub ")
	version, _, _ := strings.Cut(after, " ")
	return strings.TrimRight(version, "\x00")
}
