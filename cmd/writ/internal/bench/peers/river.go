package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"writ/cmd/writ/internal/bench/peer"
)

// riverPeer runs orders as chains of River jobs. Each job inserts the next one and leaves its own completion to River,
// which batches completions. Batched completions are cheaper than a transaction that inserts and completes. Only the
// completion of a run's last job is awaited. An insert wakes the worker. Client and worker share a process.
type riverPeer struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	version string // of PostgreSQL
	order   peer.Order
	epoch   int64 // number of the current order
	runs    []riverRun
}

type riverRun struct {
	left  atomic.Int64
	ended chan struct{}
}

// call is a job that does no work.
type call struct {
	Epoch int64  `json:"epoch"`
	Run   int    `json:"run"`
	Left  int    `json:"left"` // number of later calls of the run
	Body  []byte `json:"body"`
}

func (call) Kind() string { return "call" }

// bodySize makes a job as large as a small job of writ.
const bodySize = 192

// pollInterval is the longest delay of a job whose notification was missed.
const pollInterval = 50 * time.Millisecond

// openRiver starts a PostgreSQL server and a River client.
func openRiver(ctx context.Context, s peer.Settings) (_ peer.System, _ func() error, err error) {
	// The server's user needs access to the directory, which the home directory of the measuring user may not allow.
	dir, err := os.MkdirTemp("", "writ-bench-postgres-")
	if err != nil {
		return nil, nil, err
	}
	closes := []func() error{func() error { return removeAll(dir) }}
	end := func() (err error) {
		for i := len(closes) - 1; i >= 0; i-- {
			err = errors.Join(err, closes[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	url, postgres, err := startPostgres(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	closes = append(closes, postgres.close)
	r := &riverPeer{}
	if err := r.open(ctx, url, s.Slots); err != nil {
		return nil, nil, err
	}
	closes = append(closes, func() error { r.pool.Close(); return nil }, func() error { return r.client.Stop(context.WithoutCancel(ctx)) })
	return r, end, nil
}

func (r *riverPeer) open(ctx context.Context, url string, slots int) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = int32(min(slots+16, 150))
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if err := r.pool.QueryRow(ctx, "SHOW server_version").Scan(&r.version); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(r.work))
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: pollInterval,
		Workers: workers,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return r.client.Start(ctx)
}

// About implements peer.System.
func (r *riverPeer) About() peer.About {
	return peer.About{
		Name:       "River " + peer.Version("github.com/riverqueue/river") + ", PostgreSQL " + r.version[:strings.IndexByte(r.version+" ", ' ')],
		Durability: "every call on disk before it counts (PostgreSQL, synchronous_commit on), its end a moment later: a power failure repeats calls",
	}
}

// Begin implements peer.System.
func (r *riverPeer) Begin(ctx context.Context, o peer.Order) (func() error, error) {
	if _, err := r.pool.Exec(ctx, "DELETE FROM river_job WHERE state = 'completed'"); err != nil {
		return nil, fmt.Errorf("begin with an empty table: %w", err)
	}
	r.order, r.epoch, r.runs = o, r.epoch+1, make([]riverRun, o.Runs)
	for i := range r.runs {
		r.runs[i].left.Store(int64(o.Calls))
		r.runs[i].ended = make(chan struct{})
	}
	return func() error { return nil }, nil
}

// Run implements peer.System.
func (r *riverPeer) Run(ctx context.Context, i int) error {
	if err := r.insert(ctx, i); err != nil {
		return err
	}
	select {
	case <-r.runs[i].ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *riverPeer) insert(ctx context.Context, i int) error {
	first := call{Epoch: r.epoch, Run: i, Body: make([]byte, bodySize)}
	if !r.order.AtOnce {
		first.Left = r.order.Calls - 1
		_, err := r.client.Insert(ctx, first, nil)
		return err
	}
	all := make([]river.InsertManyParams, r.order.Calls)
	for n := range all {
		all[n].Args = first
	}
	_, err := r.client.InsertManyFast(ctx, all)
	return err
}

// work runs a call and inserts the next one.
func (r *riverPeer) work(ctx context.Context, job *river.Job[call]) error {
	switch next := job.Args; {
	case next.Epoch != r.epoch:
		return river.JobCancel(errors.New("a call of another round"))
	case r.order.AtOnce: // all calls were inserted at once
	case next.Left > 0:
		next.Left--
		if _, err := r.client.Insert(ctx, next, nil); err != nil {
			return err
		}
	default:
		if err := r.complete(ctx, job); err != nil {
			return err
		}
	}
	if run := &r.runs[job.Args.Run]; run.left.Add(-1) == 0 {
		close(run.ended)
	}
	return nil
}

// complete returns when the completion of a job is on disk.
func (r *riverPeer) complete(ctx context.Context, job *river.Job[call]) error {
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // a no-op after the commit
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
