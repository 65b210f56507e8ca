// Package sbom writes a software bill of materials in the CycloneDX 1.6 format. The output is reproducible: it has no
// timestamp, and its id derives from the content. The package does not depend on the building of images.
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

// Component is a piece of software, such as a program or a package. Parts lists the software in it, such as the modules
// of a program.
type Component struct {
	Type    string // a type of CycloneDX: application, operating-system, library, device-driver, firmware, file
	Name    string
	Version string
	PURL    string // package URL
	SHA256  string
	License string // SPDX id if it is listed in spdx, otherwise free text
	Parts   []Component
}

// JSON structure of CycloneDX.
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

// spdx lists the SPDX ids of components in images.
var spdx = []string{"Apache-2.0", "GPL-2.0-only", "LGPL-2.1-or-later", "MPL-2.0", "BSD-3-Clause"}

// Encode returns the bill of materials of a component. Parts are sorted by type, name and version.
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
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8 (custom)
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

// of converts a component. Its reference contains the references of its parents, because two programs may have the same
// part.
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

// GoModules returns the version of a Go program and the modules it was built from. Both are empty if the file is not a
// Go program or has no build information.
func GoModules(program []byte) (version string, modules []Component) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return "", nil
	}
	if version = info.Main.Version; version == "(devel)" { // carries no information
		version = ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "" {
			version = s.Value
		}
	}
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	modules = append(modules, Component{
		Type: "library", Name: "std", Version: toolchain, PURL: purl("golang", "std", toolchain),
		License: "BSD-3-Clause",
	})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules,
			Component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl("golang", m.Path, m.Version)})
	}
	return version, modules
}

// Debian returns the component of a Debian or Ubuntu package.
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

// debianLicense returns the main license of a package that is common in images, or "" for other packages. The file
// usr/share/doc/NAME/copyright in a package lists all its licenses.
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
