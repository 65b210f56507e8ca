// Peers is a program for `writ bench --beside`. It offers systems that cover all or a part of writ's work. It is a
// separate module, so that writ does not depend on their libraries.
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

// kinds lists the systems. For a system that is unavailable on this machine, Missing is the reason.
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
