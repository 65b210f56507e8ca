package runnerd

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/vmmstub"
	"writ/sal/saltest"
)

// Network namespaces separate two nodes of a host, but not the users of their processes.
func TestTwoNodesOfAHostGiveTheirProcessesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes as others")
	}
	host := vmmstub.Passable(t)
	node := func(users string) driverConfig {
		return driverConfig{Host: HostConfig{ProcessUsers: users, ContainerIDs: noUsers}, Log: slog.New(slog.DiscardHandler)}
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

func TestTwoNodesOfAHostGiveTheirContainersOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives users away")
	}
	host := vmmstub.Passable(t)
	node := func(processes, ids string) driverConfig {
		return driverConfig{Host: HostConfig{ProcessUsers: processes, ContainerIDs: ids}, Log: slog.New(slog.DiscardHandler)}
	}
	ids := saltest.ContainerIDs(host).Numbers()
	one, err := node(noUsers, ids).claimUsers(t.Context(), filepath.Join(host, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	_, err = node(noUsers, ids).claimUsers(t.Context(), filepath.Join(host, "two"))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeUsage || !strings.Contains(e.Hint, "--container-ids ") {
		t.Errorf("the second one has the same: %v", err)
	}
	for text, want := range map[string]string{"700000000-700003000": "fewer than", "0-99999999": "of system users", "700000000-700200000": ""} {
		if err := node(noUsers, text).checkUsers(host); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if hint := writ.AsError(parseUsers("container-ids", noUsers).Off).Hint; hint != "omit --container-ids none" {
		t.Errorf("writ doctor advises %q", hint)
	}
	if err := node(ids, ids).checkUsers(host); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("processes and containers with the same: %v", err)
	}
}
