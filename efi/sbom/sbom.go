// Package sbom writes what something is made of as a software bill of materials, in the form of CycloneDX 1.6. Equal components make equal bytes:
// there is no time in it, and its id follows from its content. It must not know what an image is, nor where components come from.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Component is a part, with its own parts.
type Component struct {
	Type    string // one of CycloneDX: application, operating-system, library, device-driver, firmware, file
	Name    string
	Version string
	PURL    string // package URL
	SHA256  string
	License string // id of SPDX if it is known as one, or what its authors call it
	Parts   []Component
}

// The form of CycloneDX.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber,omitempty"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string      `json:"type"`
		Ref        string      `json:"bom-ref"`
		Name       string      `json:"name"`
		Version    string      `json:"version,omitempty"`
		Hashes     []hash      `json:"hashes,omitempty"`
		Licenses   []choice    `json:"licenses,omitempty"`
		PURL       string      `json:"purl,omitempty"`
		Components []component `json:"components,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	choice struct {
		License license `json:"license"`
	}
	license struct {
		ID   string `json:"id,omitempty"`
		Name string `json:"name,omitempty"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// spdx are the ids of SPDX that components of images have.
var spdx = []string{"Apache-2.0", "GPL-2.0-only", "LGPL-2.1-or-later", "MPL-2.0", "BSD-3-Clause"}

// Encode returns the bill of something and its parts. Parts are sorted by their type, name and version.
func Encode(whole Component, parts []Component) ([]byte, error) {
	whole.Parts = nil
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{of(whole, "")}, Components: all(parts, ""),
	}
	root := dependency{Ref: b.Metadata.Component.Ref}
	for _, c := range b.Components {
		root.DependsOn = append(root.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{root}
	unnamed, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(unnamed)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: what it is made of is our matter
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

func all(parts []Component, above string) []component {
	sorted := slices.SortedFunc(slices.Values(parts), func(a, b Component) int {
		return slices.Compare([]string{a.Type, a.Name, a.Version}, []string{b.Type, b.Name, b.Version})
	})
	list := make([]component, 0, len(parts))
	for _, c := range sorted {
		list = append(list, of(c, above))
	}
	return list
}

// of is a component of the bill. Its reference has those of what is above it, because two programs may have the same part.
func of(c Component, above string) component {
	out := component{Type: c.Type, Name: c.Name, Version: c.Version, PURL: c.PURL, Ref: above + c.Type + "/" + c.Name}
	if c.Version != "" {
		out.Ref += "@" + c.Version
	}
	if c.SHA256 != "" {
		out.Hashes = []hash{{"SHA-256", c.SHA256}}
	}
	if slices.Contains(spdx, c.License) {
		out.Licenses = []choice{{license{ID: c.License}}}
	} else if c.License != "" {
		out.Licenses = []choice{{license{Name: c.License}}}
	}
	if len(c.Parts) > 0 {
		out.Components = all(c.Parts, out.Ref+"#")
	}
	return out
}

// GoModules returns the modules that a Go program was built of, and the version of the program. There are none if it is no Go program, or does
// not say.
func GoModules(program []byte) (version string, modules []Component) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return "", nil
	}
	if version = info.Main.Version; version == "(devel)" { // which says no more than nothing
		version = ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "" {
			version = s.Value
		}
	}
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	modules = append(modules, Component{Type: "library", Name: "std", Version: toolchain, PURL: purl("golang", "std", toolchain), License: "BSD-3-Clause"})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, Component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl("golang", m.Path, m.Version)})
	}
	return version, modules
}

// Debian returns a component of a package of Debian, or of Ubuntu.
func Debian(name, version, architecture, sha256 string) Component {
	vendor := "debian"
	if strings.Contains(version, "ubuntu") {
		vendor = "ubuntu"
	}
	return Component{
		Type: "operating-system", Name: name, Version: version, SHA256: sha256, License: debianLicense(name),
		PURL: purl("deb", vendor+"/"+name, version) + "?arch=" + url.QueryEscape(architecture),
	}
}

// debianLicense is the main one of packages that images are usually made of; their files in usr/share/doc have the rest.
func debianLicense(name string) string {
	switch {
	case strings.HasPrefix(name, "linux-"):
		return "GPL-2.0-only"
	case name == "systemd-boot-efi":
		return "LGPL-2.1-or-later"
	case name == "ca-certificates":
		return "MPL-2.0"
	}
	return ""
}

func purl(kind, name, version string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	text := "pkg:" + kind + "/" + strings.Join(segments, "/")
	if version != "" {
		text += "@" + url.QueryEscape(version)
	}
	return text
}
