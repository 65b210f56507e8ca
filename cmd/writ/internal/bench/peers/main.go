// Peers is a program that `writ bench --beside` starts: systems that do what writ does or a part of it, with what each of them needs to
// run. It has a module of its own, so that nothing of them is in writ's.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"writ/cmd/writ/internal/bench/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := peer.Program(ctx, kinds(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kinds are the systems, each with why it cannot be measured on this machine.
func kinds() []peer.Kind {
	river := peer.Kind{Offer: peer.Offer{Name: "river"}, Open: openRiver}
	if _, err := postgresPrograms(); err != nil {
		river.Missing = err.Error()
	}
	temporal := peer.Kind{Offer: peer.Offer{Name: "temporal"}, Open: openTemporal}
	if _, err := exec.LookPath("temporal"); err != nil {
		temporal.Missing = "temporal is not on PATH (go install github.com/temporalio/cli/cmd/temporal@v1.5.1)"
	}
	return []peer.Kind{river, temporal}
}
