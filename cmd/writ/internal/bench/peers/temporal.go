package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"writ/cmd/writ/internal/bench/peer"
)

// temporalPeer runs orders as workflows of activities on Temporal's development server, which keeps its state in an
// SQLite file. Production deployments use another server and database.
type temporalPeer struct {
	client client.Client
	server string // version
	order  peer.Order
	epoch  int64
}

const taskQueue = "bench"

// pollers is the number of concurrent polls for work. With the SDK's default of 2, polling would be the bottleneck.
const pollers = 16

// openTemporal starts the server, a client and a worker.
func openTemporal(ctx context.Context, s peer.Settings) (_ peer.System, _ func() error, err error) {
	path, err := exec.LookPath("temporal")
	if err != nil {
		return nil, nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("ask temporal for its version: %w", err)
	}
	t := &temporalPeer{server: serverVersion(string(said))}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	cmd := exec.Command(path, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error",
		"--db-filename", filepath.Join(s.Dir, "temporal.db"))
	server, err := startServer(ctx, cmd, syscall.SIGTERM, func(ctx context.Context) error {
		t.client, err = client.DialContext(ctx, client.Options{HostPort: "127.0.0.1:" + strconv.Itoa(port), Logger: quiet})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	w := worker.New(t.client, taskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: s.Slots, MaxConcurrentActivityTaskPollers: pollers, MaxConcurrentWorkflowTaskPollers: pollers,
	})
	w.RegisterWorkflow(steps)
	w.RegisterActivity(ping)
	if err := w.Start(); err != nil {
		t.client.Close()
		return nil, nil, errors.Join(fmt.Errorf("start a worker: %w", err), server.close())
	}
	return t, func() error {
		w.Stop()
		t.client.Close()
		return server.close()
	}, nil
}

// serverVersion extracts the server's version from the program's output, for example "temporal version 1.5.1 (Server
// 1.29.1, UI …)".
func serverVersion(said string) string {
	_, after, _ := strings.Cut(said, "Server ")
	version, _, _ := strings.Cut(after, ",")
	return strings.TrimSpace(version)
}

// steps is the workflow of a run: activities that do no work, in sequence or all at once.
func steps(ctx workflow.Context, o peer.Order) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var waiting []workflow.Future
	for range o.Calls {
		made := workflow.ExecuteActivity(ctx, ping)
		if o.AtOnce {
			waiting = append(waiting, made)
		} else if err := made.Get(ctx, nil); err != nil {
			return err
		}
	}
	for _, made := range waiting {
		if err := made.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func ping(context.Context) error { return nil }

// About implements peer.System.
func (t *temporalPeer) About() peer.About {
	return peer.About{
		Name:       "Temporal " + t.server + ", development server",
		Durability: "every step in the history, in an SQLite file; not the server or database that people run in earnest",
	}
}

// Begin implements peer.System.
func (t *temporalPeer) Begin(_ context.Context, o peer.Order) (func() error, error) {
	t.order, t.epoch = o, t.epoch+1
	return func() error { return nil }, nil
}

// Run implements peer.System.
func (t *temporalPeer) Run(ctx context.Context, i int) error {
	id := fmt.Sprintf("bench-%d-%d", t.epoch, i)
	run, err := t.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: taskQueue}, steps, t.order)
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}
