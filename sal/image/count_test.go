package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"writ"
	"writ/sal/saltest"
)

// The test gives one content many names.
func TestImagesOfAProjectAreBounded(t *testing.T) {
	s := newImageServer(t, map[string][]byte{"/a": make([]byte, 1<<20)})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(make([]byte, 1<<20))}
	if _, err := b.fetch(t.Context(), "first", args); err != nil {
		t.Fatal(err)
	}
	records := b.store().records.Dir
	first, err := os.ReadFile(filepath.Join(records, saltest.Resource(writ.KindImage, "first").HostName()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxImages - 1 { // without syncing each
		name := fmt.Sprint("n", i)
		text := strings.ReplaceAll(string(first), `"first"`, strconv.Quote(name))
		if err := os.WriteFile(filepath.Join(records, saltest.Resource(writ.KindImage, name).HostName()+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.fetch(t.Context(), "more", args); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("one image too many: %v", err)
	}
	if o, err := b.fetch(t.Context(), "n1", args); err != nil || o.Change != writ.ChangeUnchanged {
		t.Errorf("an image that exists: %s, %v", o.Change, err)
	}
}
