package coord

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// busyLedger is an overloaded ledger: every limited read of the datacenters times out.
type busyLedger struct{ ledger.Ledger }

func (l busyLedger) Datacenters(ctx context.Context) ([]ledger.Datacenter, error) {
	if _, limited := ctx.Deadline(); limited {
		return nil, context.DeadlineExceeded
	}
	return l.Ledger.Datacenters(ctx)
}

// TestBusyLedgerIsNotAnInternalError reads from a coordinator whose ledger is slow. The limit for the answers of
// datacenters does not end the read of the ledger. A page that cannot wait asks the reader to try again.
func TestBusyLedgerIsNotAnInternalError(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := startNamed(t, func(c *Config) { c.Ledger = busyLedger{store} })
	token := p.token("alice")
	get := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, p.PublicURL+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/v1/nodes", "/v1/queues", "/v1/holds", "/v1/boots", "/v1/tokens"} {
		if w := get(path); w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	w := get("/")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		!testenv.Mentions(w.Body.String(), string(writ.CodeStoreUnavailable), "try again") {
		t.Errorf("the first page: status %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}
