package containerd

import (
	"archive/tar"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/containerd/runtimespec"
)

// fieldImage is an image whose config or files are unusual.
type fieldImage struct {
	config map[string]any
	files  []testenv.LayerEntry
	volume string // path of a volume
	line   string // shell command for the container
	want   string // output of the command, or the error if line is empty
}

func symlink(name, to string) testenv.LayerEntry {
	return testenv.LayerEntry{Header: tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}}
}

func hardLink(name, to string) testenv.LayerEntry {
	return testenv.LayerEntry{Header: tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}}
}

func node(kind byte, name string, mode int64) testenv.LayerEntry {
	return testenv.LayerEntry{Header: tar.Header{Name: name, Typeflag: kind, Mode: mode, Devmajor: 1, Devminor: 5}}
}

// fieldImages are images as real tools make them. The runtime rejects parts of their configs.
var fieldImages = map[string]fieldImage{
	"env-without-path":    {config: map[string]any{"Env": []string{"A=b"}}, line: "echo $A $PATH", want: "b " + strings.TrimPrefix(runtimespec.SearchPath, "PATH=")},
	"env-without-value":   {config: map[string]any{"Env": []string{"PATH=/bin", "BARE", "A="}}, line: "echo $PATH$BARE$A", want: "/bin"},
	"env-without-name":    {config: map[string]any{"Env": []string{"PATH=/bin", "=x", "A==b"}}, line: "echo $A", want: "=b"},
	"directory-relative":  {config: map[string]any{"WorkingDir": "app/../srv"}, line: "pwd", want: "/srv"},
	"user-with-no-group":  {config: map[string]any{"User": "web:"}, line: "id -u; id -g", want: "33\n34"},
	"group-with-no-user":  {config: map[string]any{"User": ":7"}, line: "id -u; id -g", want: "0\n7"},
	"users-behind-a-link": {config: map[string]any{"User": "nix"}, files: usersOfNix, line: "id -u", want: "44"},
	"names-behind-links": {
		files: []testenv.LayerEntry{symlink("etc/resolv.conf", "/run/systemd/resolve/stub"), symlink("etc/hosts", "/nowhere/hosts")},
		line:  "head -n 1 /etc/hosts", want: "127.0.0.1 localhost",
	},

	"user-unknown":     {config: map[string]any{"User": "nobody"}, want: `the image names the user "nobody"`},
	"user-unmapped":    {config: map[string]any{"User": "70000"}, want: "the users and groups 0 to 65535, and not 70000"},
	"users-in-a-fifo":  {files: []testenv.LayerEntry{node(tar.TypeFifo, "etc/passwd", 0o644)}, want: "not a regular file"},
	"users-in-a-drive": {files: []testenv.LayerEntry{node(tar.TypeChar, "etc/group", 0o644)}, want: "not a regular file"},
	"directory-a-file": {config: map[string]any{"WorkingDir": "/etc/passwd"}, want: "not a directory"},
	"directory-a-loop": {config: map[string]any{"WorkingDir": "/loop"}, files: []testenv.LayerEntry{symlink("loop", "/loop")}, want: "file exists"},
	"hosts-a-tree":     {files: []testenv.LayerEntry{node(tar.TypeDir, "etc/hosts/", 0o755)}, want: "not a directory"},
	"proc-a-link":      {files: []testenv.LayerEntry{symlink("proc", "tmp")}, want: "must be mounted on ordinary directory"},
	"env-nul":          {config: map[string]any{"Env": []string{"A=\x00"}}, want: `its variable "A" contains NUL`},
	"env-large":        {config: map[string]any{"Env": []string{"A=" + strings.Repeat("x", runtimespec.MaxWord)}}, want: "131073 bytes"},
	"argument-nul":     {config: map[string]any{"Entrypoint": []string{"sh", "\x00"}}, want: "its argument 1 contains NUL"},
	"directory-nul":    {config: map[string]any{"WorkingDir": "/a\x00"}, want: "working directory contains NUL"},
	"link-to-nothing":  {files: []testenv.LayerEntry{hardLink("etc/key", "../../etc/shadow")}, want: ": link /etc/shadow /etc/key: no such file"},
	"file-as-parent":   {files: []testenv.LayerEntry{node(tar.TypeReg, "a", 0o644), node(tar.TypeReg, "a/b", 0o644)}, want: "not a directory"},
	"whiteout-of-all":  {files: []testenv.LayerEntry{node(tar.TypeReg, ".wh.", 0o644)}, want: "invalid whiteout name"},
	"entry-of-a-tape":  {files: []testenv.LayerEntry{node('V', "label", 0o644)}, want: "unhandled tar header type"},
	"name-too-long":    {files: []testenv.LayerEntry{node(tar.TypeReg, strings.Repeat("n", 300), 0o644)}, want: "file name too long"},
	"capability-wrong": {
		files: []testenv.LayerEntry{{Header: tar.Header{Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}}},
		want:  "failed to setxattr",
	},
	"volume-at-a-file": {volume: "/bin/busybox", want: "not a directory"},
	"volume-at-a-loop": {volume: "/loop", files: []testenv.LayerEntry{symlink("loop", "/loop")}, want: "too many levels"},
}

// usersOfNix are user files at the paths of Nix.
var usersOfNix = []testenv.LayerEntry{
	symlink("etc/passwd", "/nix/store/users"), {Header: tar.Header{Name: "nix/store/users", Mode: 0o444}, Text: "nix:x:44:44::/:/bin/sh\n"},
}

func TestUnusualImagesRunOrAreRefused(t *testing.T) {
	testenv.Nightly(t, "TestContainerHasUserOfItsImage, TestEnvironmentOmitsBrokenVariables, TestRefusalsOfTheRuntimeAreFinal and "+
		"TestInvalidLayersAreFinal of package sal/containerd decide the same without a daemon")
	b := newFixture(t, "")
	for name, tt := range fieldImages {
		t.Run(name, func(t *testing.T) {
			image := testenv.BusyboxThatSays(t, tt.config, tt.files...)
			b.driver.Images = fetched{sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}}
			args := map[string]any{"image": "busybox"}
			if tt.volume != "" {
				args["volumes"] = []any{map[string]any{"volume": map[string]any{"kind": "volume", "name": "data", "uid": "u"}, "path": tt.volume}}
			}
			_, err := b.do("container.create", name, args)
			if tt.line == "" {
				if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want a refusal with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(b.sh(name, tt.line)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			b.must("container.delete", name, nil)
		})
	}
}
