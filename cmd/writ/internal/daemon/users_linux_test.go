package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/vmmstub"
	"writ/sal/saltest"
)

// Network namespaces keep two nodes of a host apart, and not what their processes run as.
func TestTwoNodesOfAHostGiveTheirProcessesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes as others")
	}
	host := vmmstub.Passable(t)
	node := func(users string) driverConfig {
		return driverConfig{Host: HostConfig{ProcessUsers: users}, Log: slog.New(slog.DiscardHandler)}
	}
	users := saltest.Accounts(host).Numbers()
	one, err := node(users).claimUsers(t.Context(), filepath.Join(host, "one"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = node(users).claimUsers(t.Context(), filepath.Join(host, "two"))
	e := writ.AsError(err)
	if e == nil || e.Code != writ.CodeUsage || !strings.Contains(e.Message, users) || !strings.Contains(e.Hint, "--process-users ") {
		t.Fatalf("the second one has the same: %v", err)
	}
	_, others, _ := strings.Cut(e.Hint, "--process-users ")
	for _, text := range []string{others, noUsers} {
		two, err := node(text).claimUsers(t.Context(), filepath.Join(host, "two"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		two.Close()
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := node(users).claimUsers(t.Context(), filepath.Join(host, "one"))
	if err != nil {
		t.Fatalf("started again: %v", err)
	}
	again.Close()
}
