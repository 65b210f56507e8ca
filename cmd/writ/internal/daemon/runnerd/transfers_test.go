package runnerd

import (
	"strings"
	"testing"

	"writ"
)

// The flags of transfers need an address that other nodes can reach and a positive rate.
func TestTransferFlagsMustBeComplete(t *testing.T) {
	for _, tt := range []struct {
		address, public string
		rate            int64
		hint            string // "" if it is fine
	}{
		{"", "", 0, ""},
		{"127.0.0.1:0", "", 0, ""},
		{"127.0.0.1:0", "n1.example.net:7450", 5, ""},
		{":0", "", 0, "is not an address that other nodes can reach"},
		{"", "n1.example.net:7450", 0, "needs --transfers"},
		{"127.0.0.1:0", ":7450", 0, "is not the address of a host"},
		{"", "", 5, "--transfers"},
		{"127.0.0.1:0", "", -1, "is invalid"},
	} {
		got, err := openTransfers(tt.address, tt.public, tt.rate)
		if got != nil {
			defer got.Listener.Close()
			if got.Rate != tt.rate<<20 || tt.public != "" && got.Address != tt.public {
				t.Errorf("%+v is %+v", tt, got)
			}
		}
		if tt.hint == "" && (err != nil || (got != nil) != (tt.address != "")) || tt.hint != "" && (writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), tt.hint)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
