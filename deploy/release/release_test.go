package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ/internal/test/testenv"
)

// fixture is a release whose program is only a text. Tests that run the program build it.
func fixture(t *testing.T, text string) *packer {
	t.Helper()
	b := &builds{dir: t.TempDir(), completions: map[string]string{}}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, p := range known {
		b.programs = append(b.programs, program{p, file(p.OS+"_"+p.Arch+"/writ", text+p.String())})
	}
	b.man = filepath.Dir(file("man/writ.1", ".TH writ 1\n"))
	for _, shell := range []string{"bash", "fish", "zsh"} {
		b.completions[shell] = file("writ."+shell, "# completion\n")
	}
	s := &source{dir: "../..", version: "v1.2.3-rc.1", made: time.Unix(1_790_000_000, 0).UTC(), progress: io.Discard}
	return &packer{s, b, t.TempDir()}
}

// Promise: Releases and CI: Equal commits produce equal release files, in any directory.
// How: All times are the commit's time.
// Also: TestAReleaseOfThisSourceRunsInEachForm
func TestEqualProgramsMakeEqualFiles(t *testing.T) {
	one, again := fixture(t, "the program for "), fixture(t, "the program for ")
	first, second := one.out, again.out
	if err := one.pack(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", second) // the output must not depend on the user
	if err := again.pack(); err != nil {
		t.Fatal(err)
	}
	names, err := namesIn(first)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{sumsName}
	for _, p := range known {
		ends := []string{"cdx.json", "tar.gz"}
		if p.OS == "linux" {
			ends = append(ends, "deb", "rpm")
		}
		for _, end := range ends {
			want = append(want, "writ_1.2.3-rc.1_"+p.OS+"_"+p.Arch+"."+end)
		}
	}
	want = append(want, "writ_1.2.3-rc.1_image.tar")
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	for _, name := range names {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs: %d and %d bytes, %v", name, len(one), len(two), err)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsName)
	check.Dir = first
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("the checksums: %v\n%s", err, text)
	}
}

func TestAnArchiveHasAllThatAPersonNeeds(t *testing.T) {
	s := fixture(t, "the program for ")
	for _, p := range s.built.programs {
		target := filepath.Join(t.TempDir(), "writ.tar.gz")
		if err := s.archive(p, target); err != nil {
			t.Fatal(err)
		}
		packed, err := os.Open(target)
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		z, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		modes := map[string]int64{}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			modes[strings.TrimPrefix(h.Name, "writ_1.2.3-rc.1_"+p.OS+"_"+p.Arch+"/")] = h.Mode
		}
		for name, mode := range map[string]int64{"writ": 0o755, "LICENSE": 0o644, "NOTICE": 0o644, "man/writ.1": 0o644, "completions/writ.bash": 0o644} {
			if modes[name] != mode {
				t.Errorf("%s: %s has the mode %o, want %o", p, name, modes[name], mode)
			}
		}
		if _, has := modes["systemd/writ-runner.service"]; has != (p.OS == "linux") {
			t.Errorf("%s: units of systemd: %t", p, has)
		}
	}
}

func TestUnreleasableSourceIsRefused(t *testing.T) {
	program := testenv.Need(t, "git")
	clone := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, append([]string{"-C", clone, "-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)...)
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, text)
		}
	}
	if err := os.MkdirAll(filepath.Join(clone, "cmd/writ"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "cmd/writ/main.go"), []byte("package main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "something"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	refused("the commit has no tag", "-source", clone, "-out", t.TempDir())
	for _, version := range []string{"1.2.3", "v1.2", "v1", "latest", "v1.2.3 ", "v01.2.3"} {
		refused("invalid version", "-source", clone, "-version", version, "-out", t.TempDir())
	}
	refused("is not empty", "-source", clone, "-version", "v1.2.3", "-out", full)
	refused("is not the source of writ", "-source", full, "-version", "v1.2.3", "-out", t.TempDir())
	refused(`writ is not built for "windows/amd64"`, "-source", clone, "-version", "v1.2.3", "-platforms", "windows/amd64", "-out", t.TempDir())
	refused("is named twice", "-source", clone, "-version", "v1.2.3", "-platforms", "linux/amd64,linux/amd64", "-out", t.TempDir())
	if err := os.WriteFile(filepath.Join(clone, "more"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("changes that are not committed", "-source", clone, "-version", "v1.2.3", "-out", t.TempDir())
}

// The image is valid for other tools: its index names an image per platform, and each image the user and the program.
func TestAnImageHasAUserAndOneProgram(t *testing.T) {
	s := fixture(t, "the program for ")
	target := filepath.Join(t.TempDir(), "image.tar")
	if err := s.image(target); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if blobs[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	type descriptor struct {
		MediaType, Digest string
		Platform          struct{ OS, Architecture string }
	}
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(blobs[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
	var index struct{ Manifests []descriptor }
	read("index.json", &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("got %d images, want one for each processor", len(index.Manifests))
	}
	for _, d := range index.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		read(blob(d), &manifest)
		var config struct {
			OS, Architecture string
			Config           struct {
				User       string
				Entrypoint []string
			}
		}
		read(blob(manifest.Config), &config)
		if config.OS != "linux" || config.Architecture != d.Platform.Architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/writ"}) {
			t.Errorf("the image for %+v has %+v", d.Platform, config)
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" || manifest.Config.MediaType != "application/vnd.oci.image.config.v1+json" {
			t.Errorf("the image for %+v is %+v", d.Platform, manifest)
		}
	}
}
