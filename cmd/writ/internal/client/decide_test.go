package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
)

// A removed node is in no list, before or after its event. A newly admitted node is listed only after its event.
func TestNewsOfANodeAreAwaitedAsLongAsTheyCanCome(t *testing.T) {
	at := func(revision int) []writ.Node { return []writ.Node{{ID: "n1", Revision: revision}} }
	for decision, lists := range map[string][][]writ.Node{
		"remove":              {at(1), nil},
		identity.DecisionLost: {nil},
		"approve":             {nil, at(2)},
		"cordon":              {at(1), at(2)},
	} {
		t.Run(decision, func(t *testing.T) {
			asked := 0
			coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(api.NodePage{Items: lists[min(asked, len(lists)-1)]})
				asked++
			}))
			defer coordinator.Close()
			c, err := New(config.Context{Servers: []string{coordinator.URL}}, t.TempDir(), Keys{})
			if err != nil {
				t.Fatal(err)
			}
			c.Nodes.AwaitNews(t.Context(), writ.Node{ID: "n1", Revision: 1}, decision)
			if asked != len(lists) {
				t.Errorf("%d requests, and the news were in answer %d", asked, len(lists))
			}
		})
	}
}
