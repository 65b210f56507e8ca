package revision

import (
	"strings"
	"testing"
	"time"

	"writ/identity"
)

func TestChangesFitOneLine(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	other := "@sha256:" + strings.Repeat("0b", 32)
	base := func() *identity.Payload {
		return &identity.Payload{
			Params: map[string]any{"count": int64(1), "note": "a\nb"}, Deadline: time.Hour, MaxCalls: 10,
			Script: identity.File{Name: "web.tengo", Text: []byte("x := 1\ny := 2\n")},
			Images: []string{"docker.io/library/nginx:1.26" + digest},
		}
	}
	for name, tt := range map[string]struct {
		change func(p *identity.Payload)
		want   string
	}{
		"signer":       {func(p *identity.Payload) { p.Signer, p.Created = "bob", time.Now() }, ""},
		"script":       {func(p *identity.Payload) { p.Script.Text = []byte("x := 1\ny := 3\nz := 4\n") }, "web.tengo +2 -1"},
		"module":       {func(p *identity.Payload) { p.Modules = []identity.File{{Name: "net", Text: []byte("export 1\n")}} }, "net +1 -0"},
		"parameter":    {func(p *identity.Payload) { p.Params["count"] = int64(3) }, "count 1 → 3"},
		"lines":        {func(p *identity.Payload) { p.Params["note"] = "c" }, `note a\nb → c`},
		"new one":      {func(p *identity.Payload) { p.Params["zone"] = "eu" }, "zone = eu"},
		"without one":  {func(p *identity.Payload) { delete(p.Params, "count") }, "without count"},
		"tag":          {func(p *identity.Payload) { p.Images[0] = "docker.io/library/nginx:1.27" + other }, "image nginx 1.26@0a0a0a0a → 1.27@0b0b0b0b"},
		"digest":       {func(p *identity.Payload) { p.Images[0] = "docker.io/library/nginx:1.26" + other }, "image nginx 1.26@0a0a0a0a → 1.26@0b0b0b0b"},
		"new image":    {func(p *identity.Payload) { p.Images = append(p.Images, "ghcr.io/a/b"+other) }, "image b @0b0b0b0b"},
		"no image":     {func(p *identity.Payload) { p.Images = nil }, "without image nginx"},
		"secret":       {func(p *identity.Payload) { p.Secrets = []string{"token@2"} }, "secrets"},
		"destructive":  {func(p *identity.Payload) { p.Targets = []string{"volume/a"} }, "destructive"},
		"prune":        {func(p *identity.Payload) { p.Prune = []string{"volume/a"} }, "prune"},
		"used by it":   {func(p *identity.Payload) { p.Uses = []string{"shop"} }, "uses"},
		"its deadline": {func(p *identity.Payload) { p.Deadline = time.Minute }, "limits"},
	} {
		next := base()
		tt.change(next)
		if got := Changes(&Revision{Number: 1, Payload: base()}, &Revision{Number: 2, Payload: next}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
