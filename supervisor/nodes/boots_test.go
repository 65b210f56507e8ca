package nodes_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ"
	"writ/supervisor/nodes"
)

// bootDesk receives the lists of one boot server.
type bootDesk struct {
	desk
	took [][]byte
}

func (d *bootDesk) BootNext(_ context.Context, token string) (nodes.BootNext, error) {
	return nodes.BootNext{Nonce: []byte("nonce of " + token), Count: 7}, nil
}

func (d *bootDesk) ReportBoots(_ context.Context, c nodes.BootCredential, read func() ([]byte, error)) error {
	if string(c.Proof) != "proof" {
		return writ.Errorf(writ.CodeTokenInvalid, "it proves nothing")
	}
	list, err := read()
	if err == nil {
		d.took = append(d.took, list)
	}
	return err
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("a list is read before its boot server has proved itself")
	return 0, http.ErrBodyReadAfterClose
}

// A list is read only after its boot server is authenticated, up to the limit.
func TestTheListOfABootServerIsBoundedAndReadLast(t *testing.T) {
	d := &bootDesk{}
	api := nodes.Handler(d, nil, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(api)
	defer server.Close()
	client := &nodes.Client{URL: server.URL}
	next, err := client.BootNext(t.Context(), "t1")
	if err != nil || string(next.Nonce) != "nonce of t1" || next.Count != 7 {
		t.Errorf("%+v, %v", next, err)
	}
	proved := nodes.BootCredential{Token: "t1", Nonce: next.Nonce, Count: next.Count, Proof: []byte("proof")}
	report := func(c nodes.BootCredential, list []byte) error {
		return client.ReportBoots(t.Context(), c, func() ([]byte, error) { return list, nil })
	}
	if err := report(proved, []byte("list")); err != nil || len(d.took) != 1 || string(d.took[0]) != "list" {
		t.Errorf("%v, %q", err, d.took)
	}
	if err := report(proved, bytes.Repeat([]byte("x"), nodes.MaxBootList+1)); writ.CodeOf(err) != writ.CodeTooLarge {
		t.Errorf("too long a list: %v", err)
	}
	if err := report(nodes.BootCredential{Token: "t1"}, []byte("list")); writ.CodeOf(err) != writ.CodeTokenInvalid || len(d.took) != 1 {
		t.Errorf("without a proof: %v, %q", err, d.took)
	}
	for header, want := range map[string]int{"": http.StatusForbidden, "Bearer x": http.StatusForbidden, "Writ-Boot !": http.StatusBadRequest, "Writ-Boot " + strings.Repeat("A", 1<<16): http.StatusForbidden, "Writ-Boot e30": http.StatusForbidden} {
		r := httptest.NewRequest(http.MethodPost, "/v1/boots", unreadable{t})
		r.Header.Set("Authorization", header)
		answer := httptest.NewRecorder()
		if api.ServeHTTP(answer, r); answer.Code != want {
			t.Errorf("%.20q: %d, want %d", header, answer.Code, want)
		}
	}
	none := httptest.NewServer(nodes.Handler(&desk{}, nil, slog.New(slog.DiscardHandler)))
	defer none.Close()
	if _, err := (&nodes.Client{URL: none.URL}).BootNext(t.Context(), "t1"); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("where none reports: %v", err)
	}
}
