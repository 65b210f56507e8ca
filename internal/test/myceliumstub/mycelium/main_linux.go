// Command mycelium is a stub of mycelium for tests, under its name. It does not encrypt; see package myceliumstub.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"writ/internal/test/myceliumstub"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(myceliumstub.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
