package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/runner/queue/embedded"
	"writ/scripts"
)

// TestFlippedByteIsRefused changes each byte of a submission. The coordinator refuses it, and if the coordinator does
// not verify it, the supervisor does.
//
// Promise: Signatures and rosters: Coordinator and supervisor each refuse a submission with any flipped byte.
// How: Both verify the received bytes.
func TestFlippedByteIsRefused(t *testing.T) {
	t.Parallel()
	for name, blind := range map[string]bool{"by the coordinator": false, "by the supervisor": true} {
		t.Run(name, func(t *testing.T) {
			c, sign := newSmallCluster(t, blind)
			signed := sign()
			for i := range signed {
				forged := bytes.Clone(signed)
				forged[i] ^= 1
				s, err := c.Orders.Submit(t.Context(), forged)
				if err == nil && (!blind || s.State == writ.SubmissionDelivered) {
					t.Errorf("byte %d, %q made %q: accepted", i, signed[i], forged[i])
				}
			}
			// Submissions to another datacenter wait for it. The others are decided.
			waitFor(t, func() bool { return len(runsIn(t, c, "dc1", api.RunStateWaiting)) == 0 })
			for _, r := range runsIn(t, c, "") {
				if r.State != api.RunStateRefused && r.State != api.RunStateWaiting {
					t.Errorf("a forged run is %s", r.State)
				}
			}
			// The unchanged script is accepted, so the changes were the cause. It is signed again, because a blind
			// coordinator stores the refusal of a text whose signature was changed.
			s, err := c.Orders.Submit(t.Context(), sign())
			if err != nil {
				t.Fatal(err)
			}
			run, err := c.Streams.Watch(t.Context(), s.Run, client.Watcher{Event: func(api.Event) {}})
			if err != nil || run.State != api.RunStateSucceeded {
				t.Errorf("unchanged: %s, %v", run.State, err)
			}
		})
	}
}

func runsIn(t *testing.T, c *client.Client, datacenter string, states ...api.RunState) []api.Run {
	t.Helper()
	runs, err := client.All(func(cursor string) ([]api.Run, string, error) {
		params := &api.ListRunsParams{Datacenter: api.Given(datacenter), State: states, Limit: api.Given(client.PageSize), Cursor: api.Given(cursor)}
		page, err := api.Answer[api.RunPage](c.API.ListRuns(t.Context(), params))
		return page.Items, page.NextCursor, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(testcluster.Patience)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never is")
		}
	}
}

// newSmallCluster runs a coordinator, optionally blind, and a supervisor without nodes in this process. It returns a
// client, and a function that signs a script that needs no node.
func newSmallCluster(t *testing.T, blind bool) (*client.Client, func() []byte) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	dir := t.TempDir()
	private, err := supervisord.Key(dir) // any key will do for the user
	if err != nil {
		t.Fatal(err)
	}
	key := &client.Key{Signer: sshsig.NewSigner(private), Spec: filepath.Join(dir, "supervisor.key")}
	_, first, err := client.Found(key, "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cluster := identity.ClusterOf(key.PublicKey())
	rosters := config.RostersIn(dir, cluster)
	roster, err := rosters.Add(first)
	if err != nil {
		t.Fatal(err)
	}
	super := supervisord.Config{Data: filepath.Join(dir, "dc1"), Name: "dc1", Version: "test", Log: slog.New(slog.DiscardHandler)}
	superKey, err := supervisord.Key(super.Data)
	if err != nil {
		t.Fatal(err)
	}
	alice := &client.Person{Key: key, Name: "alice", Roster: roster}
	second, err := client.Successor(roster, alice, time.Now(), func(next *identity.Roster) error {
		return client.AddDatacenter(next, writ.Datacenter{Name: "dc1", Region: "here"}, daemon.PublicKey(superKey))
	})
	if err != nil {
		t.Fatal(err)
	}
	if alice.Roster, err = rosters.Add(second); err != nil {
		t.Fatal(err)
	}
	if _, err := config.RostersIn(super.Data, cluster).Add(first, second); err != nil {
		t.Fatal(err)
	}

	stand := embedded.New("127.0.0.1:0")
	background(t, "redis", func(ctx context.Context, _ func()) error { return stand.Run(ctx) })
	if super.Redis.URL, err = stand.URL(t.Context()); err != nil {
		t.Fatal(err)
	}
	coordinator := coordinatord.Config{
		Data: filepath.Join(dir, "coord"), Rosters: [][]byte{first, second}, Cluster: cluster, Version: "test", Log: slog.New(slog.DiscardHandler),
		SkipEarlyCheckForTest: blind,
	}
	if coordinator.Listener, err = daemon.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	url := "http://" + coordinator.Listener.Addr().String()
	super.Coordinators = []string{url}
	if super.Listener, err = daemon.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	<-background(t, "coordinator", processes.Build(func(ready func()) (*coordinatord.Coordinator, error) {
		coordinator.Ready = ready
		return coordinatord.New(coordinator)
	}))
	<-background(t, "supervisor", processes.Build(func(ready func()) (*supervisord.Supervisor, error) {
		super.Ready = ready
		return supervisord.New(super)
	}))
	one := config.Context{Servers: []string{url}, Cluster: cluster}
	c, err := client.New(one, dir, client.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		list, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(t.Context()))
		return err == nil && slices.ContainsFunc(list.Items, func(d api.Datacenter) bool { return d.Placeable })
	})
	order := client.Order{
		Script:     client.NewScript("small.tengo", []byte("run := import(\"run\")\nrun.output({answer: 42})\n")),
		Datacenter: alice.Roster.Datacenters.Named("dc1").ID, Project: alice.Roster.Projects[0],
		Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: scripts.MaxCalls,
	}
	return c, func() []byte {
		text, err := order.Payload(alice.Roster, alice.Signatory())
		if err != nil {
			t.Fatal(err)
		}
		armored, err := key.Sign(sshsig.ScriptNamespace, text)
		if err != nil {
			t.Fatal(err)
		}
		return sshsig.Join(text, armored)
	}
}

// background runs a process until the test ends. The channel is closed when it is ready.
func background(t *testing.T, name string, run func(ctx context.Context, ready func()) error) <-chan struct{} {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return ready
}
