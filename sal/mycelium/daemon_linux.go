package mycelium

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/sleep"
)

// Shortest and longest pause before the daemon is restarted. The pause doubles while the daemon exits soon after its
// start.
const (
	firstPause = time.Second
	longPause  = time.Minute
)

// Run keeps the daemon running until ctx ends. It adopts the daemon of an earlier Run, and restarts the daemon whenever
// it exits, after longer pauses if that happens repeatedly. Without the daemon's program, Run only waits for ctx. It
// returns an error if the key cannot be loaded or a peer is invalid.
func (n *Node) Run(ctx context.Context) error {
	// Create the key first, or the daemon would generate one.
	if _, err := n.Address(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if err := CheckPeers(n.Peers); err != nil {
		return err
	}
	if _, err := n.program(); err != nil {
		n.Log.WarnContext(ctx, "mycelium is missing: networks are local to this node", "err", err)
		<-ctx.Done()
		return nil
	}
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := n.runDaemon(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > longPause {
			pause = firstPause
		}
		if writ.CodeOf(err) == writ.CodeListenRefused {
			n.fault.Store(fmt.Sprintf("%v; the daemon starts when the port is free", err))
		} else {
			n.fault.Store(fmt.Sprintf("the daemon exited (%v) and is being restarted; its log is %s", err,
				filepath.Join(n.Dir, logName)))
		}
		n.Log.WarnContext(ctx, "mycelium is not running", "err", err, "again_in", pause)
		_ = sleep.For(ctx, pause)
		pause = min(2*pause, longPause)
	}
	return nil
}

// runDaemon adopts or starts a daemon, and returns when the daemon has exited or ctx has ended. In the second case it
// stops the daemon, unless Outlive is set.
func (n *Node) runDaemon(ctx context.Context) error {
	args, err := n.args(n.keyPath())
	if err != nil {
		return err
	}
	p, err := findDaemon(n.name(), n.keyPath())
	if err != nil {
		return err
	}
	if p != nil && !slices.Equal(p.args, args) {
		n.Log.InfoContext(ctx, "mycelium settings changed; restarting it", "pid", p.pid)
		p.stop(ctx)
		p.handle.Close()
		p = nil
	}
	log := logFile{filepath.Join(n.Dir, logName), n.step}
	if p == nil {
		l := launch{dir: n.Dir, netns: n.Netns, ready: n.checkPorts, log: log, step: n.step}
		if p, err = l.start(args); err != nil {
			return err
		}
		n.Log.InfoContext(ctx, "mycelium started", "pid", p.pid)
	}
	defer p.handle.Close()
	n.fault.Store("")
	trimming, stop := context.WithCancel(ctx)
	var trimmer sync.WaitGroup
	trimmer.Go(func() { log.trimRegularly(trimming, n.Log) })
	err = p.wait(ctx)
	stop()
	trimmer.Wait()
	if ctx.Err() != nil && !n.Outlive {
		p.stop(context.WithoutCancel(ctx))
	}
	return err
}

// Stop stops the daemon of this node, even if another process started it, and returns when the daemon has exited. It is
// not an error if no daemon runs.
func (n *Node) Stop(ctx context.Context) error {
	p, err := findDaemon(n.name(), n.keyPath())
	if err != nil || p == nil {
		return err
	}
	defer p.handle.Close()
	p.stop(ctx)
	return nil
}
