package coord

import (
	"net/http"
	"strings"
	"testing"

	"writ"
	"writ/coord/access"
	"writ/internal/test/testenv"
)

// Each operation with a JSON body rejects a field that the API description lacks, and trailing data.
func TestNoBodyHasAnUnknownField(t *testing.T) {
	p := start(t, func(c *Config) { c.Self = &access.Self{ID: frontID, Key: key("front")} })
	if _, err := p.AddRoster(t.Context(), signedRoster(t, readingRoster(t, p.PublicURL))); err != nil {
		t.Fatal(err)
	}
	token, asked := p.token("alice"), 0
	for path, item := range description().Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
				continue
			}
			asked++
			for body, named := range map[string]string{`{"nonsense": 1}`: "nonsense", "{} {}": "follows"} {
				r, err := http.NewRequestWithContext(t.Context(), method, p.PublicURL+strings.ReplaceAll(path, "{datacenter}", "vienna"), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+token)
				status, answer := p.read(p.client.Client.Do(r))
				wantProblem(t, path+" "+body, status, answer, writ.CodeBadRequest)
				if !testenv.Mentions(answer, named) {
					t.Errorf("%s %s is refused for something else: %s", path, body, answer)
				}
			}
		}
	}
	if asked < 6 {
		t.Errorf("%d operations take JSON", asked)
	}
}
