package catalog

import (
	"strings"
	"testing"

	"writ"
)

func TestOtherImageNeedsAnotherName(t *testing.T) {
	t.Parallel()
	op, _ := Lookup("image.fetch")
	args := func(sum string) map[string]any { return map[string]any{"url": "file:///web.tar", "sha256": sum} }
	_, err := op.Remake(writ.ResourceID{Kind: writ.KindImage, Name: "web"}, "image.fetch", args("00"), args("11"))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeImmutableField || !strings.HasPrefix(e.Hint, "put the version into the name") {
		t.Errorf("another checksum under the same name returns %v", err)
	}
}
