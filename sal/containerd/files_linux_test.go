package containerd

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// withFiles returns the arguments of a container with files.
func withFiles(files map[string]any) map[string]any {
	return map[string]any{"image": "busybox", "memory_mib": int64(64), "command": waits, "files": files}
}

var aSecret = map[string]any{"secret": "db@1"}

// Promise: Networks and containers: A container reads the files of its call at their paths, with mode and owner, and
// cannot change them.
// How: Each is a read-only mount from a directory that only root of the node can enter.
// Also: TestFileIsNeverBehindASymbolicLink, TestConformance
//
// Promise: Secrets: A secret in a file of a container is in no record, label or log, and its file is removed with the
// container.
func TestContainerReadsItsFiles(t *testing.T) {
	b := newFixture(t, "")
	image := testenv.BusyboxThatSays(t, map[string]any{"User": "web"})
	b.driver.Images = fetched{sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}}
	args := withFiles(map[string]any{
		"/etc/app/app.toml":   "name = \"é\"\n",
		"/run/secrets/db":     aSecret,
		"/run/secrets/web":    map[string]any{"text": aSecret, "owner": "web"},
		"/etc/numbers":        map[string]any{"text": "", "mode": "0640", "owner": "7:web"},
		"/bin/hello":          map[string]any{"text": "#!/bin/sh\necho hello\n", "mode": "755"},
		"/etc/passwd":         "root:x:0:0::/:/bin/sh\n", // hides the image's, which has named the owners
		"/a/b c/\"quoted\":1": "odd",
	})
	r := b.request("container.create", "web", args, map[catalog.Secret]string{"db@1": "s3cr3t"})
	if _, err := b.driver.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	reads := func(when string) {
		t.Helper()
		for line, want := range map[string]string{
			"id -u":                                               "33",
			"cat /etc/app/app.toml":                               "name = \"é\"",
			"stat -c '%a %u:%g' /etc/app/app.toml":                "444 0:0",
			"cat /run/secrets/db 2>/dev/null || echo no":          "no",
			"stat -c '%a %u:%g' /run/secrets/db":                  "400 0:0",
			"cat /run/secrets/web":                                "<secret db>",
			`[ "$(cat /run/secrets/web)" = s3cr"3t" ] && echo it`: "it",
			"stat -c '%a %u:%g %s' /etc/numbers":                  "640 7:34 0",
			"/bin/hello":                                          "hello",
			"cat '/a/b c/\"quoted\":1'":                           "odd",
			"cat /etc/passwd":                                     "root:x:0:0::/:/bin/sh",
			"echo x 2>/dev/null >/run/secrets/web || echo no":     "no",
		} {
			if got := strings.TrimSpace(b.sh("web", line)); got != want {
				t.Errorf("%s, %s: %q, want %q", when, line, got, want)
			}
		}
		for _, path := range []string{"/etc/app/app.toml", "/run/secrets/db"} {
			if options := b.sh("web", "grep ' "+path+" ' /proc/mounts"); !strings.Contains(options, " ro,nosuid,nodev") {
				t.Errorf("%s, %s is mounted with %s", when, path, options)
			}
		}
	}
	reads("at first")
	b.must("container.stop", "web", nil)
	b.reopen()
	b.must("container.start", "web", nil)
	reads("after a restart")

	place := placeOf(b.driver.Dir, r.Resource)
	if info, err := os.Stat(place); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("their directory has the mode %v, %v", info.Mode(), err)
	}
	err := filepath.WalkDir(b.driver.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, ".files/") || strings.HasSuffix(path, ".masks") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "s3cr3t") {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	b.must("container.exec", "web", map[string]any{"command": []any{"sh", "-c", "cat /run/secrets/web >/proc/1/fd/1 || true"}})
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// Promise: Secrets: The log of a container shows no secret of its files.
func TestLogMasksSecretsOfFiles(t *testing.T) {
	b := newFixture(t, "")
	args := withFiles(map[string]any{"/run/secrets/db": aSecret})
	args["command"] = []any{"sh", "-c", "cat /run/secrets/db; echo; echo end; exec sleep 1000"}
	secrets := map[catalog.Secret]string{"db@1": "s3cr3t"}
	if _, err := b.driver.Do(t.Context(), b.request("container.create", "web", args, secrets)); err != nil {
		t.Fatal(err)
	}
	b.eventually("it writes", func() bool { return strings.Contains(b.log("web"), "end") })
	b.reopen()
	if log := b.log("web"); log != "<secret db>\nend\n" {
		t.Errorf("its log is %q", log)
	}
	run := withFiles(map[string]any{"/run/secrets/db": aSecret})
	run["command"] = []any{"sh", "-c", "cat /run/secrets/db; exit 3"}
	_, err := b.driver.Do(t.Context(), b.request("container.run", "job", run, secrets))
	if writ.CodeOf(err) != writ.CodeProgramFailed || !strings.HasSuffix(writ.AsError(err).Message, "ends with: <secret db>") {
		t.Errorf("its program: %v", err)
	}
}

// Promise: Secrets: After a change of a secret in a file, the log of the running container shows no earlier value.
func TestLogMasksEarlierSecretsOfFiles(t *testing.T) {
	b := newFixture(t, "")
	asks := func(version int, value string) {
		t.Helper()
		args := withFiles(map[string]any{"/run/secrets/db": map[string]any{
			"text": map[string]any{"secret": fmt.Sprint("db@", version)}, "on_change": "HUP",
		}})
		args["command"] = []any{"sh", "-c",
			`old=$(cat /run/secrets/db); trap 'cat /run/secrets/db; echo " after $old"' HUP; echo "$old"; while :; do sleep 1000 & wait; done`}
		secrets := map[catalog.Secret]string{catalog.Secret(fmt.Sprint("db@", version)): value}
		if _, err := b.driver.Do(t.Context(), b.request("container.create", "web", args, secrets)); err != nil {
			t.Fatal(err)
		}
	}
	const begin, next = "<secret db>\n", "<secret db> after <secret db>\n"
	asks(1, "f1rst")
	b.eventually("it writes", func() bool { return b.log("web") == begin })
	asks(2, "s3cond")
	b.eventually("it writes again", func() bool { return strings.Contains(b.log("web"), "after") })
	asks(3, "th1rd")
	b.eventually("it writes at last", func() bool { return strings.Count(b.log("web"), "after") == 2 })
	if log := b.log("web"); log != begin+next+next {
		t.Errorf("its log is %q", log)
	}
	if got := b.sh("web", "echo f1rst"); got != "<secret db>\n" {
		t.Errorf("a program prints %q", got)
	}

	// The number of earlier secrets has a limit. A new container begins without them.
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, "web"))
	if err != nil {
		t.Fatal(err)
	}
	masks, err := storedMasks(b.driver, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxEarlier {
		masks[fmt.Sprint("earlier-", i)] = "<secret db>"
	}
	text, err := json.Marshal(masks)
	if err == nil {
		err = os.WriteFile(masksPath(b.driver, r.Resource, r.Own.Container), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	asks(4, "f0urth")
	b.eventually("it writes again", func() bool { return b.log("web") == begin })
}

// Promise: Secrets: The log of a container shows no secret of its composed texts, also if the program prints only the
// secret.
func TestLogMasksSecretsOfTexts(t *testing.T) {
	b := newFixture(t, "")
	url := map[string]any{"parts": []any{"redis://:", aSecret, "@db"}}
	args := withFiles(map[string]any{"/etc/url": url})
	args["env"] = map[string]any{"URL": url}
	args["command"] = []any{"sh", "-c", `echo "$URL"; cat /etc/url; echo; echo s3cr3t; stat -c %a /etc/url; exec sleep 1000`}
	if _, err := b.driver.Do(t.Context(), b.request("container.create", "web", args, map[catalog.Secret]string{"db@1": "s3cr3t"})); err != nil {
		t.Fatal(err)
	}
	const want = "redis://:<secret db>@db\nredis://:<secret db>@db\n<secret db>\n400\n"
	b.eventually("it writes", func() bool { return b.log("web") == want })
	b.reopen()
	if log := b.log("web"); log != want {
		t.Errorf("its log is %q", log)
	}
	if got := b.sh("web", "cat /etc/url"); got != "redis://:<secret db>@db" {
		t.Errorf("a program prints %q", got)
	}
	other := map[string]any{"parts": []any{"x", map[string]any{"secret": "other@1"}}}
	said, err := b.driver.Do(t.Context(), b.request("container.exec", "web",
		map[string]any{"command": []any{"sh", "-c", `echo ${OTHER#x}; cat`}, "env": map[string]any{"OTHER": other}, "stdin": other},
		map[catalog.Secret]string{"other@1": "0ther"}))
	if err != nil || said.Values["stdout"] != "<secret other>\nx<secret other>" {
		t.Errorf("a program with secrets of its own prints %v, %v", said.Values["stdout"], err)
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// A changed file has the effect that its on_change asks for.
func TestChangedFileSignalsOrRestarts(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	change := func(text, onChange string) sal.Outcome {
		t.Helper()
		args := withFiles(map[string]any{"/etc/app": map[string]any{"text": text, "on_change": onChange}})
		args["command"] = []any{"sh", "-c", `trap "cat /etc/app" HUP; echo up; while :; do sleep 1000 & wait; done`}
		o, err := b.do("container.create", "web", args)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	change("first and long\n", "HUP")
	b.eventually("it is up", func() bool { return strings.Contains(b.log("web"), "up") })
	b.sh("web", "echo kept >/mark")
	for _, c := range []struct {
		text, onChange string
		change         writ.Change
		log, reads     string
	}{
		{"first and long\n", "HUP", writ.ChangeUnchanged, "up\n", "first and long\n"},
		{"second\n", "none", writ.ChangeUpdated, "up\n", "second\n"},
		{"third\n", "HUP", writ.ChangeUpdated, "up\nthird\n", "third\n"},
		{"third\n", "restart", writ.ChangeUpdated, "up\nthird\n", "third\n"},
	} {
		if o := change(c.text, c.onChange); o.Change != c.change {
			t.Errorf("%q, %s: %s", c.text, c.onChange, o.Change)
		}
		b.eventually(fmt.Sprintf("%q, %s", c.text, c.onChange), func() bool { return b.log("web") == c.log })
		if got := b.sh("web", "cat /etc/app /mark"); got != c.reads+"kept\n" {
			t.Errorf("%q, %s: the container has %q", c.text, c.onChange, got)
		}
	}
	change("fourth\n", "restart")
	if got := b.sh("web", "cat /etc/app; ls /mark 2>&1 || true"); !strings.HasPrefix(got, "fourth\n") || !strings.Contains(got, "No such file") {
		t.Errorf("a restart for a file: %q", got)
	}
	b.must("container.stop", "web", nil)
	change("fifth\n", "HUP") // without a program, there is no signal
	b.must("container.start", "web", nil)
	if got := b.sh("web", "cat /etc/app"); got != "fifth\n" {
		t.Errorf("a stopped container gets %q", got)
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// An interrupted change of content is completed by the next call, whatever it asks for.
func TestInterruptedChangeOfFilesIsCompleted(t *testing.T) {
	b := newFixture(t, "")
	asks := func(text string) sal.Request {
		args := withFiles(map[string]any{"/etc/app": map[string]any{"text": text, "on_change": "HUP"}, "/etc/other": "x"})
		args["command"] = []any{"sh", "-c", `trap "cat /etc/app" HUP; echo up; while :; do sleep 1000 & wait; done`}
		return b.request("container.create", "web", args, nil)
	}
	if _, err := b.driver.Do(t.Context(), asks("first\n")); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is up", func() bool { return strings.Contains(b.log("web"), "up") })
	log := "up\n"
	for _, c := range []struct{ step, asked, next string }{
		{"change a file", "second\n", "first\n"},
		{"signal the program", "third\n", "first\n"},
		{"signal the program", "fourth\n", "fourth\n"},
	} {
		b.interrupted(asks(c.asked), c.step)
		o, err := b.driver.Do(t.Context(), asks(c.next))
		if err != nil || o.Change != writ.ChangeUpdated {
			t.Errorf("%s, then %q: %s, %v", c.step, c.next, o.Change, err)
		}
		log += c.next
		b.eventually(c.step, func() bool { return b.log("web") == log })
		if got := b.sh("web", "cat /etc/app /etc/other"); got != c.next+"x" {
			t.Errorf("%s, then %q: the container has %q", c.step, c.next, got)
		}
		if o, err := b.driver.Do(t.Context(), asks(c.next)); err != nil || o.Change != writ.ChangeUnchanged {
			t.Errorf("%s, repeated: %s, %v", c.step, o.Change, err)
		}
	}

	// A replacement has all its files, unless the replaced container returns.
	b.interrupted(asks("fifth\n"), "change a file")
	args := withFiles(map[string]any{"/etc/app": "sixth\n", "/etc/other": "x"})
	args["health"] = map[string]any{"retries": int64(1), "start_seconds": int64(1), "command": []any{"false"}}
	if _, err := b.do("container.create", "web", args); writ.CodeOf(err) != writ.CodeUnhealthy {
		t.Fatal(err)
	}
	if o, err := b.driver.Do(t.Context(), asks("fourth\n")); err != nil || o.Change != writ.ChangeUpdated {
		t.Errorf("after a failed replacement: %s, %v", o.Change, err)
	}
	b.interrupted(asks("seventh\n"), "change a file")
	delete(args, "health")
	for _, want := range []writ.Change{writ.ChangeUpdated, writ.ChangeUnchanged} {
		if o, err := b.do("container.create", "web", args); err != nil || o.Change != want {
			t.Errorf("a replacement: %s, %v, want %s", o.Change, err, want)
		}
	}
}

// Promise: Networks and containers: A file of a container is never mounted through a symbolic link of its image or of its
// program.
// How: The driver inspects the image first, and the path in the process before it starts.
func TestFileIsNeverBehindASymbolicLink(t *testing.T) {
	b := newFixture(t, "")
	if err := os.MkdirAll(filepath.Join(b.host, "volumes", "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, want string
		files            []testenv.LayerEntry
	}{
		{"a parent", "/var/run/db", "/var/run is a symbolic link to /run in the image", []testenv.LayerEntry{symlink("var/run", "/run")}},
		{"into a volume", "/etc/app/db", "/etc/app is a symbolic link to /data", []testenv.LayerEntry{symlink("etc/app", "/data")}},
		{"the file", "/etc/app", "/etc/app is a symbolic link to passwd", []testenv.LayerEntry{symlink("etc/app", "passwd")}},
		{"a loop", "/loop/db", "/loop is a symbolic link to /loop", []testenv.LayerEntry{symlink("loop", "/loop")}},
		{"out of the image", "/out/db", "/out is a symbolic link to ../../../..", []testenv.LayerEntry{symlink("out", "../../../..")}},
		{"a directory", "/etc/dir", "it is a directory", []testenv.LayerEntry{node(tar.TypeDir, "etc/dir/", 0o755)}},
		{"below a file", "/etc/passwd/db", "/etc/passwd is not a directory", nil},
		{"below a fifo", "/fifo/db", "/fifo is not a directory", []testenv.LayerEntry{node(tar.TypeFifo, "fifo", 0o644)}},
	} {
		image := testenv.BusyboxThatSays(t, nil, c.files...)
		b.driver.Images = fetched{sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}}
		args := withFiles(map[string]any{c.path: "text"})
		args["volumes"] = []any{mount("data", "/data")}
		_, err := b.do("container.create", "web", args)
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		b.leftNothing(c.name)
	}
	if left, err := os.ReadDir(filepath.Join(b.host, "volumes", "data")); err != nil || len(left) > 0 {
		t.Errorf("the volume has %v, %v", left, err)
	}

	b.driver.Images = fetched{busybox(t)}
	args := withFiles(map[string]any{"/app/db": "text"})
	args["restart"] = "never"
	b.must("container.create", "web", args)
	b.must("container.stop", "web", nil)
	b.must("container.start", "web", nil)
	layer := b.layerOf("web")
	b.must("container.stop", "web", nil)
	if err := os.RemoveAll(filepath.Join(layer, "app")); err != nil { // as its program may have done after an unmount
		t.Fatal(err)
	}
	if err := os.Symlink("/tmp", filepath.Join(layer, "app")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.do("container.start", "web", nil); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("behind a link of its program: %v", err)
	}
	if v := b.handle("web"); v["state"] != stopped {
		t.Errorf("it is %v", v["state"])
	}
	for range 2 {
		if _, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, "web")); err == nil {
			t.Error("Keep repairs it")
		}
		if _, err := b.do("container.start", "web", nil); writ.CodeOf(err) != writ.CodeResourceConflict {
			t.Errorf("another start behind a link: %v", err)
		}
		if v := b.handle("web"); v["state"] != stopped {
			t.Errorf("after another start it is %v", v["state"])
		}
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

// layerOf returns the writable directory of a container's layer.
func (b *fixture) layerOf(name string) string {
	b.Helper()
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, name))
	if err != nil {
		b.Fatal(err)
	}
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: r.Resource}}
	mounts, err := layerMounts(b.driver.in(b.Context()), j, r.Own.Container)
	if err != nil {
		b.Fatal(err)
	}
	for _, option := range mounts[0].Options {
		if dir, is := strings.CutPrefix(option, "upperdir="); is {
			return dir
		}
	}
	b.Fatalf("no writable layer: %v", mounts)
	return ""
}

// A probe that began before a change of a secret does not show the new one.
func TestProbeShowsNoChangedSecret(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	asks := func(version int, value string) {
		t.Helper()
		args := withFiles(map[string]any{"/run/secrets/db": map[string]any{
			"text": map[string]any{"secret": fmt.Sprint("db@", version)}, "on_change": "none",
		}})
		args["health"] = map[string]any{"retries": int64(1), "interval_seconds": int64(15), "timeout_seconds": int64(15), "command": []any{
			"sh", "-c", "[ -e /slow ] || exit 0; touch /begun; while [ -e /slow ]; do sleep .1; done; cat /run/secrets/db; exit 1",
		}}
		secrets := map[catalog.Secret]string{catalog.Secret(fmt.Sprint("db@", version)): value}
		if _, err := b.driver.Do(t.Context(), b.request("container.create", "web", args, secrets)); err != nil {
			t.Fatal(err)
		}
	}
	asks(1, "f1rst")
	b.sh("web", "touch /slow")
	resource := saltest.Resource(writ.KindContainer, "web")
	b.runs()
	layer := b.layerOf("web")
	b.eventually("a probe has begun", func() bool { _, err := os.Stat(filepath.Join(layer, "begun")); return err == nil })
	asks(2, "s3cond")
	b.sh("web", "rm /slow")
	b.eventually("the probe has ended", func() bool { _, runs := b.driver.probing.Load(resource.HostName()); return !runs })
	if drift, err := b.driver.Keep(t.Context(), resource); err != nil || len(drift) > 0 {
		t.Errorf("%+v, %v", drift, err)
	}
	b.must("container.delete", "web", nil)
}

// A runner that ended after it had made a process has not checked its files.
func TestCreatedProcessIsCheckedBeforeItStarts(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "web", withFiles(map[string]any{"/app/db": "text"}))
	b.must("container.stop", "web", nil)
	b.interrupted(b.request("container.start", "web", nil, nil), "start the process")
	resource := saltest.Resource(writ.KindContainer, "web")
	r, err := recordsIn(b.driver.Dir).Get(resource)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filesDir(b.driver, resource, r.Own.Container), "0")
	if err := os.Rename(file, file+".old"); err != nil { // the process has another file at the path
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := b.do("container.start", "web", nil); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("a process with another file: %v", err)
	}
	if _, err := b.do("container.start", "web", nil); err != nil { // the next process has the right one
		t.Error(err)
	}
	b.must("container.delete", "web", nil)
	b.leftNothing("after the deletion")
}

func TestFileHasALimit(t *testing.T) {
	b := newFixture(t, "")
	for size, want := range map[int]writ.Code{catalog.MaxFile: "", catalog.MaxFile + 1: writ.CodeFileTooLarge} {
		for _, operation := range []string{"container.create", "container.run"} {
			args := withFiles(map[string]any{"/etc/app": strings.Repeat("x", size)})
			args["command"] = []any{"sh", "-c", "wc -c /etc/app"}
			name := fmt.Sprint("with-", size)
			_, err := b.do(operation, name, args)
			if writ.CodeOf(err) != want || want != "" && !strings.Contains(err.Error(), "/etc/app") {
				t.Errorf("%s with %d bytes: %v", operation, size, err)
			}
			if err == nil && operation == "container.create" {
				b.must("container.delete", name, nil)
			}
			b.leftNothing(fmt.Sprint(operation, size))
		}
	}
}

// An owner that the image lacks is an error of the arguments.
func TestOwnerOfFileIsOfTheImage(t *testing.T) {
	b := newFixture(t, "")
	for owner, want := range map[string]string{"nobody": `has the owner "nobody"`, "70000": "0 to 65535, and not 70000", "web:nobody": "nobody"} {
		args := withFiles(map[string]any{"/etc/app": map[string]any{"text": "x", "owner": owner}})
		if _, err := b.do("container.create", "web", args); writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", owner, err)
		}
	}
	b.leftNothing("after refusals")
}
