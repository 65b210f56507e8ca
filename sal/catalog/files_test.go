package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// A text or a secret stands for a file with only this content, in each form of the arguments.
func TestFileHasAShortForm(t *testing.T) {
	o := operation(t, "container.create")
	sent := map[string]any{"secret": "db@1"}
	short := map[string]any{"image": "web", "files": map[string]any{"/a": "x", "/b": sent, "/c": map[string]any{"text": sent, "mode": "640"}}}
	long := map[string]any{"image": "web", "files": map[string]any{
		"/a": map[string]any{"text": "x"}, "/b": map[string]any{"text": sent, "on_change": "restart"}, "/c": map[string]any{"text": sent, "mode": "640"},
	}}
	if diff := cmp.Diff(o.Args.Fill(long), o.Args.Fill(short)); diff != "" {
		t.Errorf("filled:\n%s", diff)
	}
	if diff := cmp.Diff([]Secret{"db@1"}, o.Args.Secrets(short)); diff != "" {
		t.Error(diff)
	}
	if mutable, immutable := o.Args.Changed(o.Args.Fill(short), o.Args.Fill(long)); len(mutable)+len(immutable) > 0 {
		t.Errorf("changed are %v, %v", mutable, immutable)
	}
	for _, args := range []map[string]any{short, long} {
		decoded, err := o.DecodeWith(args, map[Secret]string{"db@1": canary})
		if err != nil {
			t.Fatal(err)
		}
		files := decoded.(*ContainerCreate).Files
		text, err := files["/c"].Text.Reveal()
		if text != canary || err != nil || files["/c"].Mode != "640" || files["/b"].OnChange != "restart" || !files["/b"].Text.HasSecret() ||
			!files["/a"].Text.Equal(PlainText("x")) {
			t.Errorf("decoded %v, %v", files, err)
		}
		if problems := o.Args.CheckSent(args, nil); len(problems) > 0 {
			t.Errorf("checked: %v", problems)
		}
	}
	script := map[string]any{"image": "web", "files": map[string]any{"/a": Secret("db@1"), "/b": Unknown{}, "/c": map[string]any{"text": Unknown{}}}}
	if problems := o.Args.Check(script, nil); len(problems) > 0 {
		t.Errorf("a script: %v", problems)
	}
}

func TestUselessFilesAreRefused(t *testing.T) {
	o := operation(t, "container.run")
	volume := map[string]any{"volume": writ.Ref{Kind: writ.KindVolume, Name: "v", UID: "u"}, "path": "/data"}
	for _, tt := range []struct {
		files map[string]any
		want  string // "" if it is useful
	}{
		{map[string]any{"/data-of-it": "x", "/etc/app.toml": "x", "/etc/app": "x"}, ""},
		{map[string]any{"/data/app": "x"}, "files: /data/app is in the volume at /data; use another path"},
		{map[string]any{"/data": "x"}, "is in the volume at /data"},
		{map[string]any{"/etc/app": "x", "/etc/app/db": "y"}, "/etc/app/db is below another file, /etc/app"},
		{map[string]any{"/proc/x": "x"}, "files of the kernel"},
		{map[string]any{"/etc/hosts": "x"}, "the node writes this file"},
		{map[string]any{"/dev/init": "x"}, "the path of the init process"},
		{map[string]any{"etc/app": "x"}, "must be an absolute path"},
		{map[string]any{"/etc/../app": "x"}, "must be an absolute path"},
		{map[string]any{"/etc/": "x"}, "must be an absolute path"},
		{map[string]any{"/a\nb": "x"}, "must be an absolute path"},
		{map[string]any{"/a": map[string]any{"text": "x", "mode": "4755"}}, "permissions in octal"},
		{map[string]any{"/a": map[string]any{"text": "x", "mode": "rw"}}, "permissions in octal"},
		{map[string]any{"/a": map[string]any{"text": "x", "owner": "a b"}}, "a user such as"},
		{map[string]any{"/a": map[string]any{"mode": "0600"}}, `field "text" is missing in files./a`},
		{map[string]any{"/a": map[string]any{"text": "x", "on_change": "HUP"}}, `no field "on_change"`}, // a program that ends
		{map[string]any{"/a": int64(3)}, "files./a.text must be a string, not an int"},
		{map[string]any{"/a": nil}, "must be"},
	} {
		args := map[string]any{"image": "web", "volumes": []any{volume}, "files": tt.files}
		problems := o.Args.Check(args, func(v any) (writ.ResourceKind, bool) { r, is := v.(writ.Ref); return r.Kind, is })
		switch {
		case tt.want == "" && len(problems) > 0:
			t.Errorf("%v: %v", tt.files, problems)
		case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want)):
			t.Errorf("%v: %v, want %q", tt.files, problems, tt.want)
		}
	}
	above := map[string]any{"image": "web", "files": map[string]any{"/srv": "x"}, "volumes": []any{map[string]any{"volume": volume["volume"], "path": "/srv/data"}}}
	if problems := o.Args.Check(above, func(v any) (writ.ResourceKind, bool) { r, is := v.(writ.Ref); return r.Kind, is }); len(problems) != 1 ||
		!strings.Contains(problems[0].String(), "has a volume below it, at /srv/data") {
		t.Errorf("a volume below a file: %v", problems)
	}
}

func TestUselessTmpfsIsRefused(t *testing.T) {
	o := operation(t, "container.create")
	volume := map[string]any{"volume": writ.Ref{Kind: writ.KindVolume, Name: "v", UID: "u"}, "path": "/data"}
	for path, want := range map[string]string{
		"/tmp": "", "/data/cache": "", "/etc": "", "/srv": "",
		"/data":         "tmpfs: /data is the path of a volume, too",
		"/etc/app.toml": "tmpfs: /etc/app.toml is at or below the file /etc/app.toml",
		"/etc/hosts":    "the node writes this file",
		"/proc":         "files of the kernel",
		"/dev/init/x":   "the path of the init process",
		"tmp":           "must be an absolute path",
		"/":             "must be an absolute path",
		"/run":          "tmpfs[1] must differ from tmpfs[0]",
	} {
		args := map[string]any{
			"image": "web", "volumes": []any{volume}, "files": map[string]any{"/etc/app.toml": "x"}, "tmpfs": []any{"/run", path},
		}
		problems := o.Args.Check(args, func(v any) (writ.ResourceKind, bool) { r, is := v.(writ.Ref); return r.Kind, is })
		switch {
		case want == "" && len(problems) > 0:
			t.Errorf("%s: %v", path, problems)
		case want != "" && (len(problems) != 1 || !strings.Contains(problems[0].String(), want)):
			t.Errorf("%s: %v, want %q", path, problems, want)
		}
	}
}

func TestChangedFilesReplaceTheirContainer(t *testing.T) {
	file := func(text, mode, onChange string) KeptFile {
		return KeptFile{File{PlainText(text), mode, ""}, onChange}
	}
	hidden := func(mode string) KeptFile {
		return KeptFile{File{textOf(map[string]any{"secret": "db@1"}, nil), mode, ""}, "none"}
	}
	for name, tt := range map[string]struct {
		old, now KeptFile
		replace  bool
	}{
		"the same":         {file("a", "", "restart"), file("a", "", "restart"), false},
		"another reaction": {file("a", "", "HUP"), file("a", "", "restart"), false},
		"text":             {file("a", "", "HUP"), file("b", "", "restart"), true},
		"text with signal": {file("a", "", "restart"), file("b", "", "HUP"), false},
		"text alone":       {file("a", "", "restart"), file("b", "", "none"), false},
		"mode":             {file("a", "", "none"), file("a", "600", "none"), true},
		"mode of a secret": {file("a", "", "none"), hidden(""), true},
		"mode of a text":   {hidden(""), file("a", "", "none"), true},
		"text of a mode":   {file("a", "444", "none"), hidden("444"), false},
	} {
		if got := FilesReplace(map[string]KeptFile{"/a": tt.old}, map[string]KeptFile{"/a": tt.now}); got != tt.replace {
			t.Errorf("%s: %v", name, got)
		}
	}
	one := map[string]KeptFile{"/a": file("a", "", "none")}
	for name, other := range map[string]map[string]KeptFile{"none": nil, "another": {"/b": file("a", "", "none")}} {
		if !FilesReplace(one, other) {
			t.Errorf("%s: the container stays", name)
		}
		if !FilesReplace(other, one) {
			t.Errorf("%s before: the container stays", name)
		}
	}
}

func TestDevicesAreNames(t *testing.T) {
	o := operation(t, "container.run")
	for name, want := range map[string]string{
		"kvm": "", "ttyUSB0": "", "tpm.0_a-b": "",
		"/dev/kvm": "must be the name of a device such as kvm, without a path", "..": "must be the name", "": "must be the name", "a b": "must be the name",
		"tun": "devices[1] must differ from devices[0]",
	} {
		problems := o.Args.Check(map[string]any{"image": "web", "devices": []any{"tun", name}}, nil)
		switch {
		case want == "" && len(problems) > 0:
			t.Errorf("%s: %v", name, problems)
		case want != "" && (len(problems) != 1 || !strings.Contains(problems[0].String(), want)):
			t.Errorf("%s: %v, want %q", name, problems, want)
		}
		if _, err := o.Decode(map[string]any{"image": map[string]any{"kind": "image", "name": "web", "uid": "u"}, "devices": []any{name}}); strings.HasPrefix(want, "must") && err == nil {
			t.Errorf("a node accepts the device %q", name)
		}
	}
}
