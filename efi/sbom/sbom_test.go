package sbom

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func sample() (Component, []Component) {
	kernel := Debian("linux-image-6.1.0-56-cloud-amd64", "6.1.192-2", "amd64", strings.Repeat("a", 64))
	kernel.Parts = []Component{{Type: "device-driver", Name: "virtio_net", License: "GPL"}, {Type: "device-driver", Name: "btrfs", License: "GPL"}}
	return Component{Type: "firmware", Name: "node.efi", Version: "1"}, []Component{
		kernel, Debian("systemd-boot-efi", "1:252.39-1~deb12u2+b1", "amd64", ""), {Type: "application", Name: "a"},
		{Type: "application", Name: "b", Parts: []Component{{Type: "library", Name: "x"}}}, {Type: "application", Name: "c", Parts: []Component{{Type: "library", Name: "x"}}},
	}
}

// The fields that the schema of CycloneDX 1.6 requires are present. The schema is not part of this repository.
func TestBillHasTheRequiredCycloneDXFields(t *testing.T) {
	text, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Serial   string `json:"serialNumber"`
		Version  int    `json:"version"`
		Metadata struct {
			Component component `json:"component"`
		} `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Version != 1 || !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.Serial) {
		t.Errorf("the bill begins with %s, %s, %s, %d", b.Format, b.Spec, b.Serial, b.Version)
	}
	types := []string{"application", "operating-system", "library", "device-driver", "firmware", "file"}
	refs := map[string]bool{}
	var visit func(list []component)
	visit = func(list []component) {
		for _, c := range list {
			if c.Name == "" || !slices.Contains(types, c.Type) || c.Ref == "" || refs[c.Ref] {
				t.Errorf("a component is %+v", c)
			}
			refs[c.Ref] = true
			for _, h := range c.Hashes {
				if h.Algorithm != "SHA-256" || len(h.Content) != 64 {
					t.Errorf("%s has the hash %+v", c.Name, h)
				}
			}
			for _, l := range c.Licenses {
				if (l.License.ID == "") == (l.License.Name == "") {
					t.Errorf("%s has the licence %+v", c.Name, l)
				}
			}
			visit(c.Components)
		}
	}
	visit(append([]component{b.Metadata.Component}, b.Components...))
	for _, d := range b.Dependencies {
		for _, ref := range append(d.DependsOn, d.Ref) {
			if !refs[ref] {
				t.Errorf("%s is not in the bill", ref)
			}
		}
	}
	for _, want := range []string{`"pkg:deb/debian/linux-image-6.1.0-56-cloud-amd64@6.1.192-2?arch=amd64"`, `"pkg:deb/debian/systemd-boot-efi@1%3A252.39-1~deb12u2%2Bb1?arch=amd64"`, `"id": "GPL-2.0-only"`, `"name": "GPL"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the bill has no %s:\n%s", want, text)
		}
	}
}

func TestEqualComponentsMakeEqualBills(t *testing.T) {
	whole, parts := sample()
	first, err := Encode(whole, parts)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(parts)
	if second, _ := Encode(whole, parts); !bytes.Equal(first, second) {
		t.Error("another order makes another bill")
	}
	parts[0].Version = "2"
	if third, _ := Encode(whole, parts); bytes.Equal(first[:250], third[:250]) {
		t.Error("two bills have one id")
	}
}

func TestModulesOfAGoProgramAreRead(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	_, modules := GoModules(program)
	if len(modules) == 0 || modules[0].Name != "std" || !strings.HasPrefix(modules[0].PURL, "pkg:golang/std@1.") {
		t.Errorf("they are %+v", modules)
	}
	if _, modules := GoModules([]byte("#!/bin/sh")); modules != nil {
		t.Errorf("a script has the modules %+v", modules)
	}
}
