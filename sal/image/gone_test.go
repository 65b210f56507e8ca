package image

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"writ"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

func TestChangedImageIsFetchedAgain(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<10)
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(text)}
	fetch := func(name string, want writ.Change) {
		t.Helper()
		if o, err := b.fetch(t.Context(), name, args); err != nil || o.Change != want {
			t.Errorf("%s: %+v, %v, want %s", name, o, err, want)
		}
	}
	fetch("a", writ.ChangeCreated)
	fetch("same", writ.ChangeCreated) // shares the file
	path := filepath.Join(b.host, "trees/trees/images/data", sum(text)+".raw")
	for what, spoil := range map[string]func() error{
		"gone":    func() error { return os.Remove(path) },
		"changed": func() error { _ = os.Remove(path); return os.WriteFile(path, []byte("other"), 0o400) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		seen, err := b.Observe(t.Context(), saltest.Resource(writ.KindImage, "a"))
		if err != nil || (seen.State == catalog.Gone) != (what == "gone") {
			t.Errorf("%s: Observe = %+v, %v", what, seen, err)
		}
		fetch("a", writ.ChangeCreated)
		fetch("a", writ.ChangeUnchanged)
		fetch("same", writ.ChangeUnchanged)
		if now, err := os.ReadFile(path); !bytes.Equal(now, text) {
			t.Errorf("after it was %s it has %d bytes, %v", what, len(now), err)
		}
	}
}

// A project that asks for the same content under another name gets content with the right digest.
func TestChangedFileIsNotReused(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<10)
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(text)}
	if _, err := b.fetch(t.Context(), "a", args); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.host, "trees/trees/images/data", sum(text)+".raw")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("other"), 0o400)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.fetch(t.Context(), "b", args); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); !bytes.Equal(now, text) {
		t.Errorf("it is made of %q, %v", now, err)
	}
}

// Both projects noticed the loss, and only one fetches the file again.
func TestFileFetchedByAnotherProjectStays(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<10)
	digest := sum(text)
	s := newImageServer(t, map[string][]byte{"/a": text, "/mirror": text})
	b := newFixture(t, s)
	owner := saltest.Resource(writ.KindImage, "a").Project
	fetch := func(project writ.ProjectID, path string) try {
		_, heard := b.fetchAs(t.Context(), project, "a", s.URL+path, digest)
		return heard
	}
	if one, other := fetch(owner, "/a"), fetch(stranger, "/mirror"); one.code != "" || other.code != "" {
		t.Fatal(one, other)
	}
	path := filepath.Join(b.host, "trees/trees/images/data", digest+".raw")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	delete(s.files, "/a")
	s.mu.Unlock()
	var once atomic.Bool
	again := make(chan try, 1)
	b.Step = func(name string) {
		if name != "remove the file" || !once.CompareAndSwap(false, true) {
			return
		}
		go func() { again <- fetch(stranger, "/mirror") }()
		for waits := false; !waits && len(again) == 0; runtime.Gosched() {
			waits = b.locks.Users()[digest] > 1
		}
	}
	if heard := fetch(owner, "/a"); heard.code != writ.CodeNotFound {
		t.Errorf("content gone from its server: %v", heard)
	}
	if heard := <-again; heard.code != "" {
		t.Errorf("content on its server: %v", heard)
	}
	if now, err := os.ReadFile(path); !bytes.Equal(now, text) {
		t.Errorf("it has %d bytes, %v", len(now), err)
	}
}
