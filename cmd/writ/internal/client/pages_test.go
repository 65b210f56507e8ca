package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiclient"
)

// A coordinator with an endless list does not block a command or fill its memory.
//
// Promise: Signatures and rosters: An endless list from a coordinator cannot exhaust the memory of a command.
// How: The client reads at most 2,000 pages and 1 GiB, and 10,000 lines of a log. Then it fails with `TOO_LARGE`.
// Also: TestEndlessLogHasAnEnd.
func TestAListHasAnEnd(t *testing.T) {
	asked := 0
	_, err := All(func(string) ([]int, string, error) {
		asked++
		return nil, "more", nil
	})
	if writ.CodeOf(err) != writ.CodeTooLarge || asked != maxPages {
		t.Errorf("after %d pages: %v", asked, err)
	}
	text := []string{strings.Repeat("x", 1<<20)}
	asked = 0
	_, err = allWithin(4<<20, func(string) ([]string, string, error) {
		asked++
		return text, "more", nil
	})
	if writ.CodeOf(err) != writ.CodeTooLarge || asked != 4 {
		t.Errorf("after %d pages of 1 MiB: %v", asked, err)
	}
	asked = 0
	all, err := All(func(cursor string) ([]int, string, error) {
		asked++
		return [][]int{{1, 2}, {}, {3}}[len(cursor)], [...]string{"a", "ab", ""}[len(cursor)], nil
	})
	if diff := cmp.Diff([]int{1, 2, 3}, all); diff != "" || err != nil || asked != 3 {
		t.Errorf("after %d pages: %v, %s", asked, err, diff)
	}
}

// A coordinator with an endless log does not block a command or fill its memory.
func TestEndlessLogHasAnEnd(t *testing.T) {
	for name, text := range map[string]string{"short lines": "x", "long lines": strings.Repeat("x", 64<<10)} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				page := api.LogPage{Items: make([]writ.LogLine, PageSize)}
				for i := range page.Items {
					page.Items[i] = writ.LogLine{Ordinal: 1, Text: text}
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(page)
			}))
			defer s.Close()
			client, err := apiclient.NewClient(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			shown := 0
			err = Runs{&Client{API: client}}.EachLog(t.Context(), writ.RunIDOf(writ.Digest{1}), func(page []writ.LogLine) error {
				shown += len(page)
				return nil
			})
			if writ.CodeOf(err) != writ.CodeTooLarge || shown > maxLogLines || asked > maxLogLines/PageSize+1 {
				t.Errorf("after %d answers and %d lines: %v", asked, shown, err)
			}
		})
	}
}
