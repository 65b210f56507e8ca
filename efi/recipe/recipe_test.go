package recipe

import (
	"slices"
	"strings"
	"testing"

	"writ"
)

func TestTheRecipesOfWritCanBeRead(t *testing.T) {
	sizes := map[string]int{}
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse([]byte(text + PinText([]Pin{{"linux", "6.1-2", strings.Repeat("0", 64)}})))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Packages) != 1 || r.Packages[0].Version != "6.1-2" || !r.Firmware.Modules || !r.Certificates.Packages || !slices.Contains(r.Modules.Start, "tun") || !slices.Contains(r.Modules.Wanted, "virtio_net") {
			t.Errorf("%s is %+v", name, r)
		}
		if mkfs := r.Programs[0]; mkfs.Package != "btrfs-progs" || mkfs.At != "/usr/sbin/mkfs.btrfs" || !mkfs.Optional {
			t.Errorf("%s makes no file system: %+v", name, r.Programs)
		}
		// Networks need these modules; `writ doctor` checks them.
		for _, module := range []string{"bridge", "veth", "nf_tables", "nft_ct", "nft_objref", "nft_meta_bridge", "nft_chain_nat", "nft_masq", "nft_nat"} {
			if !slices.Contains(r.Modules.Wanted, module) {
				t.Errorf("%s has no module %s", name, module)
			}
		}
		sizes[name] = len(r.Modules.Wanted)
	}
	if sizes[Cloud] >= sizes[Metal] {
		t.Errorf("the modules are %v", sizes)
	}
	if _, err := Text("../recipe"); err == nil || writ.AsError(err).Hint == "" {
		t.Errorf("missing recipe: %v", err)
	}
	if For("6.1.0-56-cloud-amd64") != Cloud || For("6.1.0-56-amd64") != Metal {
		t.Error("a kernel gets the recipe of another one")
	}
}

func TestARecipeWithAnErrorIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"modules: {waned: [tun]}":                                                "waned",
		"modul: {}":                                                              "modul",
		"modules: {wanted: ['a b']}":                                             `"a b"`,
		"firmware: {files: ['/lib/firmware/x']}":                                 "firmware pattern",
		"firmware: {files: ['../x']}":                                            "firmware pattern",
		"firmware: {files: ['[']}":                                               "firmware pattern",
		"programs: [{file: a}]":                                                  `a`,
		"programs: [{file: a, at: usr/bin/a}]":                                   "usr/bin/a",
		"programs: [{file: a, at: /usr/../init}]":                                "init",
		"programs: [{file: a, at: /tmp/a}]":                                      "hidden by a mount",
		"programs: [{file: a, at: /a, sha256: ABC}]":                             "SHA-256",
		"programs: [{package: runc, file: sbin/runc}]":                           "package",
		"programs: [{package: ../runc, file: /sbin/runc}]":                       "package",
		"programs: [{package: runc}]":                                            "package",
		"programs: [{package: runc, file: /sbin/runc, at: /run/runc}]":           "hidden by a mount",
		"programs: [{file: a, at: /a, optional: true}]":                          "optional",
		"programs: [{file: a, at: /a, files: [{file: b, at: /proc/b}]}]":         "hidden by a mount",
		"packages: [{package: linux, sha256: " + strings.Repeat("0a", 32) + "}]": "without a version",
		"services: [{name: a, comand: [/usr/bin/a]}]":                            "comand",
		"- a": "cannot be read",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %q and a hint", text, err, says)
		}
	}
}

// Promise: Machines from an image: An image consists only of pinned packages and files if its recipe pins them.
// How: Name, version and SHA-256 of each package are compared before a build.
// Also: TestARecipeWithAnErrorIsRefused, TestFirmwareCertificatesAndProgramsAreTaken.
func TestOnlyPinnedPackagesAreUsed(t *testing.T) {
	a, b := Pin{"a", "1", strings.Repeat("a", 64)}, Pin{"b", "2", strings.Repeat("b", 64)}
	other, newer := Pin{"a", "1", strings.Repeat("0", 64)}, Pin{"a", "3", strings.Repeat("a", 64)}
	for name, tt := range map[string]struct {
		pins, got []Pin
		says      string
	}{
		"no pins":       {nil, []Pin{a}, ""},
		"the same":      {[]Pin{a, b}, []Pin{b, a}, ""},
		"one is absent": {[]Pin{a, b}, []Pin{b}, "pins a 1, which is missing"},
		"one more":      {[]Pin{a}, []Pin{a, b}, "does not pin b 2"},
		"other bytes":   {[]Pin{a}, []Pin{other}, "differs from the pin"},
		"a newer one":   {[]Pin{a}, []Pin{newer}, "differs from the pin"},
	} {
		err := (&Recipe{Packages: tt.pins}).CheckPackages(tt.got)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || writ.AsError(err).Hint == "") {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

// The kernel may compare the timers of a physical machine, which needs this setting. It must not do so on a virtual
// machine, whose timers are late if the host is busy.
func TestOnlyPhysicalMachinesCompareTheirTimers(t *testing.T) {
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if left := slices.Contains(strings.Fields(r.Cmdline), "no_timer_check"); left != (name == Cloud) {
			t.Errorf("with the recipe %s the check is left out: %v", name, left)
		}
	}
}
