package containerd

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// Promise: Secrets: A container of a private image is pulled with an account of the project. Its password is in no file,
// record, result or error of the node, and another project needs an account of its own.
// How: The driver reveals the password to the client of the registry only.
func TestPrivateImageNeedsLogin(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s := ociregistry.Start(t)
	b.from(s)
	reference := s.Host + "/web:1@" + s.Push(t, "web:1", ociregistry.FromArchive(t, busybox(t).Path))
	const password = "pa55word-of-the-registry"
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if user, got, _ := r.BasicAuth(); user == "ci" && got == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	var said []string
	do := func(project writ.ProjectID, name string, secret catalog.Secret) (sal.Outcome, error) {
		args := map[string]any{"image": reference}
		if secret != "" {
			args["login"] = map[string]any{"user": "ci", "password": map[string]any{"secret": string(secret)}}
		}
		q := b.request("container.create", name, args, map[catalog.Secret]string{"reg@1": password, "reg@2": "wrong-one"})
		if project != "" {
			q.Resource.Project = project
		}
		q.Progress = func(line string) { said = append(said, line) }
		o, err := b.driver.Do(t.Context(), q)
		said = append(said, fmt.Sprint(o.Values, err, err != nil && writ.AsError(err).Hint != ""))
		return o, err
	}
	if _, err := do("", "web", ""); writ.CodeOf(err) != writ.CodeRegistryDenied {
		t.Errorf("without a login: %v", err)
	}
	if _, err := do("", "web", "reg@2"); writ.CodeOf(err) != writ.CodeRegistryLogin {
		t.Errorf("with the wrong password: %v", err)
	}
	if _, err := do("", "web", "reg@1"); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("web", "echo $FROM_IMAGE"); got != "yes\n" {
		t.Errorf("it says %q", got)
	}
	const foreign = "0192f6c2-0000-7000-8000-0000000000ff"
	if _, err := do(foreign, "web", ""); writ.CodeOf(err) != writ.CodeRegistryDenied {
		t.Errorf("another project without a login: %v", err)
	}
	if _, err := do(foreign, "web", "reg@1"); err != nil {
		t.Errorf("another project with a login: %v", err)
	}

	record := func() *record {
		r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, "web"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := record().Own.Container
	o, err := do("", "web", "reg@2")
	if err != nil || o.Change != writ.ChangeUpdated || record().Own.Container != first {
		t.Errorf("another version of the password: %s, %v, container %s after %s", o.Change, err, record().Own.Container, first)
	}
	if login, _ := record().Spec["login"].(map[string]any); fmt.Sprint(login["password"]) != "map[secret:reg@2]" {
		t.Errorf("the record has the login %v", login)
	}

	for _, line := range said {
		if strings.Contains(line, password) || strings.Contains(line, "wrong-one") {
			t.Errorf("a result has the password: %s", line)
		}
	}
	for _, dir := range []string{b.host, b.daemon.Root} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil
			}
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(password)) {
				t.Errorf("%s has the password", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	clear(t, b.driver)
}
